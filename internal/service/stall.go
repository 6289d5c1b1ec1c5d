package service

import (
	"context"
	"time"

	"fleet/internal/fleet"
)

// stallLimit returns a context that ends if answered is not called for the limit. It is for work under a lease: leases are renewed over other
// connections, so the work of a server whose store does not answer would keep the other servers from doing it. However much there is to do,
// and however slow the store is, the work goes on as long as the store answers. done releases what stallLimit uses; answered must not be
// called after it.
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
