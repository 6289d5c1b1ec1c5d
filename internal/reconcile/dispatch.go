package reconcile

import (
	"context"
	"log/slog"
	"time"
)

// dispatchLease is the lease of the server that starts the tasks of the queue.
const dispatchLease = "queue"

// dispatch starts pending tasks whenever something has changed, as long as this server has the lease.
func (r *Reconciler) dispatch(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	// It reads the queue before it takes the lease. Otherwise no server could start tasks while it reads a long queue.
	r.withLease(ctx, dispatchLease, r.jobs.Prepare, func(held context.Context) { r.dispatchWith(held, signal) })
}

// withLease calls f again and again, as long as this server has the lease on the key. It asks for the lease after prepare, which may be nil.
func (r *Reconciler) withLease(ctx context.Context, key string, prepare func(context.Context) error, f func(held context.Context)) {
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
		held, release, ok, err := r.leases.hold(ctx, key)
		if ok {
			f(held)
			release()
		} else if err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "no lease, retrying", slog.String("key", key), slog.Any("error", err))
		}
		_ = sleep(ctx, r.cfg.LeaseTTL/3) // another server has the lease, or the store does not answer
	}
}

// SettingsChanged makes the server that starts tasks look at the settings of the queue.
func (r *Reconciler) SettingsChanged() {
	select {
	case r.settings <- struct{}{}:
	default:
	}
}

// After each look, the dispatcher rests for dispatchRestFactor times as long as the look took, but at most maxRest. So calls that
// queue many tasks get most of the processor. The first look after a time without events is not delayed.
const (
	dispatchRestFactor = 3
	maxRest            = 100 * time.Millisecond
)

// dispatchWith starts pending tasks until the lease is lost or the store fails.
func (r *Reconciler) dispatchWith(held context.Context, signal <-chan struct{}) {
	for {
		begun := time.Now()
		// The lease is renewed over other connections. Without a limit, a look that hangs would keep the other servers from starting tasks.
		look, cancel := context.WithTimeout(held, r.cfg.LeaseTTL)
		next, err := r.jobs.Dispatch(look)
		cancel()
		if err != nil {
			if held.Err() == nil {
				r.log.ErrorContext(held, "tasks of the queue do not start, retrying", slog.Any("error", err))
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
		case <-held.Done():
		}
		if sleep(held, min(dispatchRestFactor*took, maxRest)-time.Since(begun.Add(took))) != nil {
			return
		}
	}
}
