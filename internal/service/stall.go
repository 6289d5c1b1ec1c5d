package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// withStallLimit returns a context that ends when storeAnswered has not been called for as long as limit. It is for work under a lease,
// which is renewed over other connections: a server whose store no longer answers its work would keep the lease, and the other servers
// could not do the work. A store that is only slow ends nothing. The caller must call stop at the end, and storeAnswered only before that.
func withStallLimit(ctx context.Context, limit time.Duration) (limitedCtx context.Context, storeAnswered, stop func()) {
	limitedCtx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() {
		cancel(fleet.Errorf(fleet.ReasonBackendUnavailable, "the store has not answered for %s", limit))
	})
	return limitedCtx, func() { timer.Reset(limit) }, func() {
		timer.Stop()
		cancel(nil)
	}
}
