package reconcile

import (
	"context"
	"time"

	"fleet/internal/state"
)

// interruptTimeout limits how long a run's host may take to notice that the run is over.
const interruptTimeout = 2 * time.Second

// interruptEnded tells the hosts of runs whose tasks have ended in the store that the runs are over, until ctx is done.
// Whichever replica has the lease of the agent: an interrupt can come at any time, and its caller waits for it.
func (r *Reconciler) interruptEnded(ctx context.Context) {
	for {
		select {
		case q := <-r.interrupts.Requests():
			r.running.Go(func() { q.Done(r.interrupt(ctx, q)) })
		case <-ctx.Done():
			return
		}
	}
}

func (r *Reconciler) interrupt(ctx context.Context, q state.Interrupt) error {
	ctx, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()
	run := q.Task.Run(true)
	run.Linger = maxLinger
	return r.places.Of(&q.Agent).Connect(q.Agent).Interrupt(ctx, run, false)
}
