package conversation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// These are the errors of Turns.Take.
var (
	ErrFull = errors.New("too many messages wait for their turn")
	ErrLate = errors.New("the turn did not come in time")
)

// Turns lets one message at a time into each conversation, in the order of arrival. It is safe for concurrent use.
type Turns struct {
	maxWaiting int // limit of waiting messages per conversation

	mu     sync.Mutex
	queues map[string]*queue
}

type queue struct{ waiting []*waiter }

type waiter struct {
	turn chan struct{} // closed when the waiter's turn begins, or when the conversation is shut
	shut bool          // the conversation was shut; set before turn is closed
}

// NewTurns returns Turns. At most maxWaiting messages wait in one conversation.
func NewTurns(maxWaiting int) *Turns {
	return &Turns{maxWaiting: maxWaiting, queues: map[string]*queue{}}
}

// InProgress reports whether a message is being processed in the conversation.
func (t *Turns) InProgress(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queues[id] != nil
}

// Waiting returns how many messages wait for their turn in the conversation.
func (t *Turns) Waiting(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.queues[id]; q != nil {
		return len(q.waiting)
	}
	return 0
}

// Take waits for the caller's turn in the conversation and returns a function that ends the turn. If wait is not 0, it
// limits the wait. Take returns ErrFull if too many messages are waiting, and ErrLate if the turn does not come in
// time. Before it waits, it gives up the slot of the call; see fleet.ReleaseSlot. If the conversation is shut meanwhile,
// Take returns without an error. So the caller must read the conversation afterwards.
func (t *Turns) Take(ctx context.Context, id string, wait time.Duration) (leave func(), err error) {
	t.mu.Lock()
	q := t.queues[id]
	if q == nil {
		t.queues[id] = &queue{}
		t.mu.Unlock()
		return func() { t.next(id) }, nil
	}
	if len(q.waiting) >= t.maxWaiting {
		t.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{turn: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	t.mu.Unlock()
	var timedOut <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		timedOut = timer.C
	}
	fleet.ReleaseSlot(ctx)
	select {
	case <-w.turn:
		if w.shut {
			return func() {}, nil
		}
		return func() { t.next(id) }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timedOut:
		err = ErrLate
	}
	if !t.withdraw(id, w) && !w.shut {
		t.next(id) // the turn has just come: pass it on
	}
	return nil, err
}

// next gives the turn to the message that has waited longest, or frees the conversation if no message waits.
func (t *Turns) next(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[id]
	if len(q.waiting) == 0 {
		delete(t.queues, id)
		return
	}
	close(q.waiting[0].turn)
	q.waiting = q.waiting[1:]
}

// Shut makes Take return for all messages that wait in the conversation. Call it after the conversation was closed.
func (t *Turns) Shut(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[id]
	if q == nil {
		return
	}
	for _, w := range q.waiting {
		w.shut = true
		close(w.turn)
	}
	q.waiting = nil
}

// withdraw removes w from the queue and reports whether it was still waiting.
func (t *Turns) withdraw(id string, w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[id]
	if q == nil {
		return false
	}
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}
