package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// stallLimit returns a context that ends when answered has not been called for as long as limit. It is for work under a lease, which is
// renewed over other connections: a server whose store no longer answers its work would keep the lease, and the other servers could not do
// the work. A store that is only slow ends nothing. The caller must call done at the end, and answered only before that.
func stallLimit(ctx context.Context, limit time.Duration) (limited context.Context, answered, done func()) {
	limited, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() {
		cancel(fleet.Errorf(fleet.ReasonBackendUnavailable, "the store has not answered for %s", limit))
	})
	return limited, func() { timer.Reset(limit) }, func() {
		timer.Stop()
		cancel(nil)
	}
}
