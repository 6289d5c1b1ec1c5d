package state

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
)

// DefaultMaxBundle is the default of Config.MaxBundle, in bytes.
const DefaultMaxBundle = 64 << 20

// bundleTimeout is how long a runner may take over a bundle.
const bundleTimeout = 5 * time.Minute

// ErrBundleTooLarge is the error of a bundle that is larger than Config.MaxBundle.
var ErrBundleTooLarge = errors.New("the bundle is too large")

// bundleBuffer is a buffer with a maximum size.
type bundleBuffer struct {
	bytes []byte
	limit int64 // maximum size, in bytes
}

func (b *bundleBuffer) Write(p []byte) (int, error) {
	if int64(len(b.bytes)+len(p)) > b.limit {
		return 0, ErrBundleTooLarge
	}
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

// Bundle returns a git bundle of the agent's work that exists nowhere else; empty if there is no such work. The error is
// ErrBundleTooLarge if the bundle is larger than Config.MaxBundle.
func (ps *Places) Bundle(ctx context.Context, a *fleet.Agent) ([]byte, error) {
	timeoutCtx, cancel := context.WithTimeout(ctx, bundleTimeout)
	defer cancel()
	b := bundleBuffer{limit: ps.cfg.MaxBundle}
	err := ps.Of(a).Connect(*a).Bundle(timeoutCtx, &b)
	if err != nil && timeoutCtx.Err() != nil && ctx.Err() == nil {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "its runner did not answer within %s", bundleTimeout).WithCause(err)
	}
	return b.bytes, err
}
