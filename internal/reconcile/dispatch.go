package reconcile

import (
	"context"
	"log/slog"
	"time"
)

// dispatchLease is the key of the lease of the server that starts the tasks of the queue.
const dispatchLease = "queue"

// dispatch starts pending tasks whenever something has changed, while this server has the lease. It returns when ctx is done.
func (r *Reconciler) dispatch(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	// Prepare reads the queue before this server takes the lease. Otherwise no server could start tasks while it reads a long queue.
	r.withLease(ctx, dispatchLease, r.jobs.Prepare, func(leaseCtx context.Context) { r.dispatchWith(leaseCtx, signal) })
}

// withLease calls f whenever this server gets the lease on the key, until ctx is done. It calls prepare before it asks for the lease,
// unless prepare is nil. When f returns, it releases the lease, and asks for it again after a while.
func (r *Reconciler) withLease(ctx context.Context, key string, prepare func(context.Context) error, f func(leaseCtx context.Context)) {
	for ctx.Err() == nil {
		if prepare != nil {
			if err := prepare(ctx); err != nil {
				if ctx.Err() == nil {
					r.log.WarnContext(ctx, "not ready for a lease, retrying", slog.String("key", key), slog.Any("error", err))
				}
				_ = sleep(ctx, r.cfg.LeaseTTL/3)
				continue
			}
		}
		leaseCtx, release, ok, err := r.leases.hold(ctx, key)
		if ok {
			f(leaseCtx)
			release()
		} else if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "no lease, retrying", slog.String("key", key), slog.Any("error", err))
		}
		_ = sleep(ctx, r.cfg.LeaseTTL/3) // another server has the lease, the store does not answer, or f has given up
	}
}

// SettingsChanged tells the dispatcher that the settings of the queue have changed, so that it looks again. It does not wait.
func (r *Reconciler) SettingsChanged() {
	select {
	case r.settings <- struct{}{}:
	default:
	}
}

// A look is one call of Jobs.Dispatch. After each look, the dispatcher rests for dispatchRestFactor times as long as the look took, but
// at most maxRest. So calls that queue many tasks get most of the processor. The first look after a time without events is not delayed.
const (
	dispatchRestFactor = 3
	maxRest            = 100 * time.Millisecond
)

// dispatchWith starts pending tasks until the lease is lost or the store fails.
func (r *Reconciler) dispatchWith(leaseCtx context.Context, signal <-chan struct{}) {
	for {
		begun := time.Now()
		next, err := r.jobs.Dispatch(leaseCtx)
		if err != nil {
			if leaseCtx.Err() == nil {
				r.log.ErrorContext(leaseCtx, "tasks of the queue do not start, retrying", slog.Any("error", err))
			}
			return
		}
		took := time.Since(begun)
		var due <-chan time.Time
		if !next.IsZero() {
			// At most a minute, because a timer stands still while the machine sleeps, and clocks are corrected.
			due = time.After(min(next.Sub(r.now())+time.Millisecond, time.Minute))
		}
		select {
		case <-signal:
		case <-r.settings:
		case <-due:
		case <-leaseCtx.Done():
		}
		if sleep(leaseCtx, min(dispatchRestFactor*took, maxRest)-time.Since(begun.Add(took))) != nil {
			return
		}
	}
}

// webhookLease is the key of the lease of the server that sends events to webhooks.
const webhookLease = "webhooks"

// sendWebhooks sends events to webhooks, as long as this server has the lease.
func (r *Reconciler) sendWebhooks(ctx context.Context) {
	r.withLease(ctx, webhookLease, nil, func(leaseCtx context.Context) {
		if err := r.jobs.SendWebhooks(leaseCtx); err != nil && leaseCtx.Err() == nil {
			r.log.ErrorContext(leaseCtx, "webhooks send nothing, retrying", slog.Any("error", err))
		}
	})
}
