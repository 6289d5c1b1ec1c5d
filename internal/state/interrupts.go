package state

import (
	"context"

	"fleet/internal/fleet"
)

// Interrupts passes requests to end runs from the service to the reconciler of the same process, without the store. The
// service does not end runs itself, because only the reconciler may change anything at a place.
type Interrupts struct{ requests chan Interrupt }

// Interrupt is a request to end the run of a task. The store already has the end of the task.
type Interrupt struct {
	Agent fleet.Agent
	Task  fleet.Task
	reply chan error // has a buffer, so that Reply never waits
}

func newInterrupts() *Interrupts { return &Interrupts{requests: make(chan Interrupt)} }

// Send requests the end of the task's run, and waits until the run's host has received the request.
func (i *Interrupts) Send(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	r := Interrupt{Agent: *a, Task: *t, reply: make(chan error, 1)}
	fleet.ReleaseSlot(ctx)
	select {
	case i.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requests returns the channel of requests. The receiver must call Reply for each.
func (i *Interrupts) Requests() <-chan Interrupt { return i.requests }

// Reply reports the result to the caller of Send.
func (i Interrupt) Reply(err error) { i.reply <- err }
