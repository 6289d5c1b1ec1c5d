package state

import (
	"context"

	"fleet/internal/fleet"
)

// Interrupts passes on which runs are to end at once: the service asks for it, and the reconciler of the same process
// does it, since it alone changes what places have.
type Interrupts struct{ requests chan Interrupt }

// Interrupt is a request to end the run of a task that has ended in the store.
type Interrupt struct {
	Agent fleet.Agent
	Task  fleet.Task
	done  chan error // has room for the answer
}

func newInterrupts() *Interrupts { return &Interrupts{requests: make(chan Interrupt)} }

// Ask asks for the end of the task's run, and waits until the run's host was told.
func (i *Interrupts) Ask(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	r := Interrupt{Agent: *a, Task: *t, done: make(chan error, 1)}
	fleet.ReleaseSlot(ctx)
	select {
	case i.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requests returns the requests. Each is answered with Done.
func (i *Interrupts) Requests() <-chan Interrupt { return i.requests }

// Done answers the request.
func (r Interrupt) Done(err error) { r.done <- err }
