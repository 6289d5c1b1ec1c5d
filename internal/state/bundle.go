package state

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
)

// DefaultMaxBundle is the largest bundle of an agent's work that is kept, in bytes, unless Config.MaxBundle says.
const DefaultMaxBundle = 64 << 20

// bundleTime is how long a runner may take over a bundle.
const bundleTime = 5 * time.Minute

// ErrBundleTooLarge is the error of a bundle that is larger than Config.MaxBundle.
var ErrBundleTooLarge = errors.New("the bundle is too large")

// bundleBuffer takes at most so many bytes.
type bundleBuffer struct {
	bytes []byte
	most  int
}

func (b *bundleBuffer) Write(p []byte) (int, error) {
	if len(b.bytes)+len(p) > b.most {
		return 0, ErrBundleTooLarge
	}
	b.bytes = append(b.bytes, p...)
	return len(p), nil
}

// Bundle has the agent's runner write a bundle of its work.
func (ps *Places) Bundle(ctx context.Context, a *fleet.Agent) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, bundleTime)
	defer cancel()
	b := bundleBuffer{most: ps.cfg.MaxBundle}
	err := ps.Of(a).Connect(*a).Bundle(limited, &b)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fleet.Errorf(fleet.ReasonBackendUnavailable, "its runner did not answer within %s", bundleTime).WithCause(err)
	}
	return b.bytes, err
}
