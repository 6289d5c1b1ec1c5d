package reconcile

import (
	"context"
	"log/slog"
	"time"
)

// dispatchLease is the key of the lease of the server that starts the tasks of the queue.
const dispatchLease = "queue"

// runDispatcher starts pending tasks whenever something has changed, while this server has the lease. It returns when ctx is done.
func (r *Reconciler) runDispatcher(ctx context.Context) {
	signal, cancel := r.store.Subscribe()
	defer cancel()
	// Prepare reads the queue before this server takes the lease. Otherwise no server could start tasks while it reads a long queue.
	r.withLease(ctx, dispatchLease, r.jobs.Prepare, func(leaseCtx context.Context) { r.dispatchUnderLease(leaseCtx, signal) })
}

// SettingsChanged tells the dispatcher that the settings of the queue have changed, so that it looks again. It does not wait.
func (r *Reconciler) SettingsChanged() {
	select {
	case r.settingsChanged <- struct{}{}:
	default:
	}
}

// After each call of Jobs.Dispatch, the dispatcher rests for dispatchRestFactor times as long as the call took, but at most
// maxDispatchRest. So calls that queue many tasks get most of the processor. The first call after a time without events is not
// delayed.
const (
	dispatchRestFactor = 3
	maxDispatchRest    = 100 * time.Millisecond
)

// dispatchUnderLease starts pending tasks until the lease is lost or the store fails.
func (r *Reconciler) dispatchUnderLease(leaseCtx context.Context, signal <-chan struct{}) {
	for {
		start := time.Now()
		next, err := r.jobs.Dispatch(leaseCtx)
		if err != nil {
			if leaseCtx.Err() == nil {
				r.log.ErrorContext(leaseCtx, "tasks of the queue do not start, retrying", slog.Any("error", err))
			}
			return
		}
		took := time.Since(start)
		var due <-chan time.Time
		if !next.IsZero() {
			// At most a minute, because a timer stands still while the machine sleeps, and clocks are corrected.
			due = time.After(min(next.Sub(r.now())+time.Millisecond, time.Minute))
		}
		select {
		case <-signal:
		case <-r.settingsChanged:
		case <-due:
		case <-leaseCtx.Done():
		}
		if sleep(leaseCtx, min(dispatchRestFactor*took, maxDispatchRest)-time.Since(start.Add(took))) != nil {
			return
		}
	}
}
