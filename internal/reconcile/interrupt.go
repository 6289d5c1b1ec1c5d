package reconcile

import (
	"context"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// interruptTimeout limits how long a run's host may take to accept the interrupt.
const interruptTimeout = 2 * time.Second

// interruptEndedRuns interrupts the runs of tasks that have ended in the store, when the service requests that, until ctx is
// done. It does not wait for the agent's lease, because an interrupt is safe at any time and the service waits for the
// result.
func (r *Reconciler) interruptEndedRuns(ctx context.Context) {
	for {
		select {
		case q := <-r.interrupts.Requests():
			r.background.Go(func() { q.Reply(r.interrupt(ctx, q)) })
		case <-ctx.Done():
			return
		}
	}
}

// interruptedRun is a run that was interrupted because its task has ended.
type interruptedRun struct {
	taskID string
	at     time.Time // when the interrupt began
}

// interrupt carries out the request. If that succeeds, it tells the agent's worker.
func (r *Reconciler) interrupt(ctx context.Context, q state.Interrupt) error {
	start := time.Now()
	err := r.interruptRun(ctx, q.Agent, q.Task.Run())
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workers[q.Agent.UID]; w != nil && err == nil {
		w.interrupted.Store(&interruptedRun{q.Task.ID, start})
	}
	return err
}

// interruptRun interrupts the run because its task has ended. The run may continue for maxLinger.
func (r *Reconciler) interruptRun(ctx context.Context, a fleet.Agent, run fleet.Run) error {
	ctx, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()
	run.Linger = maxLinger
	return r.places.Of(&a).Connect(a).Interrupt(ctx, run, false)
}
