package sessions

import (
	"context"
	"sync"

	"fleet/internal/fleet"
)

// turns lets one message at a time into each session, in the order of arrival.
type turns struct {
	most int // limit of waiting messages per session

	mu   sync.Mutex
	busy map[string]*queue
}

type queue struct{ waiting []*waiter }

type waiter struct {
	turn chan struct{} // closed when it is its turn, or when the session is shut
	shut bool          // set before turn is closed
}

func newTurns(most int) *turns { return &turns{most: most, busy: map[string]*queue{}} }

// taken reports whether a message is being processed in the session.
func (t *turns) taken(id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.busy[id] != nil
}

// take waits for the caller's turn in the session and returns a function that ends the turn. LIMIT_REACHED if too many
// are waiting. It returns early when the session is shut, which the caller notices when it reads the session.
func (t *turns) take(ctx context.Context, id string) (leave func(), err error) {
	t.mu.Lock()
	q := t.busy[id]
	if q == nil {
		t.busy[id] = &queue{}
		t.mu.Unlock()
		return func() { t.next(id) }, nil
	}
	if len(q.waiting) >= t.most {
		t.mu.Unlock()
		return nil, fleet.Errorf(fleet.ReasonLimitReached,
			"%d messages wait for their turn in the session %q already: send this one when they are answered", t.most, shorten(id, 60)).With("limit", "waiting")
	}
	w := &waiter{turn: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	t.mu.Unlock()
	select {
	case <-w.turn:
		if w.shut {
			return func() {}, nil
		}
		return func() { t.next(id) }, nil
	case <-ctx.Done():
	}
	if !t.withdraw(id, w) && !w.shut {
		t.next(id) // it came just now
	}
	return nil, ctx.Err()
}

// next gives the session to the caller that has waited longest.
func (t *turns) next(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.busy[id]
	if len(q.waiting) == 0 {
		delete(t.busy, id)
		return
	}
	close(q.waiting[0].turn)
	q.waiting = q.waiting[1:]
}

// shut releases all callers that wait in a closed session.
func (t *turns) shut(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.busy[id]
	if q == nil {
		return
	}
	for _, w := range q.waiting {
		w.shut = true
		close(w.turn)
	}
	q.waiting = nil
}

// withdraw removes a caller from the queue and reports whether it was still waiting.
func (t *turns) withdraw(id string, w *waiter) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.busy[id]
	if q == nil {
		return false
	}
	for i, x := range q.waiting {
		if x == w {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}
