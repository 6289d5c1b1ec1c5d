// Package turn decides whose turn it is where more transactions want to write than can. Both stores call it. It must never know what is
// written.
package turn

import (
	"context"
	"slices"
	"sync"

	"fleet/internal/fleet"
)

// foregroundTurns is how many foreground calls may pass a waiting background call.
const foregroundTurns = 4

// Queue hands out a fixed number of things, such as connections. Calls are served in order, but background calls let foreground calls
// pass. A background call is one whose context has a lease: it is a worker's, for which nobody waits.
type Queue[T any] struct {
	mu          sync.Mutex
	free        []T
	front, back []chan T
	turns       int // foreground calls that passed the waiting background call
}

// NewQueue returns a queue that hands out the things.
func NewQueue[T any](things ...T) *Queue[T] { return &Queue[T]{free: things} }

// Take waits for a thing. The caller gives it, or another one in its place, back with Give.
func (q *Queue[T]) Take(ctx context.Context) (thing T, err error) {
	if err := ctx.Err(); err != nil {
		return thing, err
	}
	_, background := fleet.LeaseFrom(ctx)
	thing, waiting := q.request(background)
	if waiting == nil {
		return thing, nil
	}
	select {
	case thing = <-waiting:
		return thing, nil
	case <-ctx.Done():
		q.withdraw(waiting)
		return thing, ctx.Err()
	}
}

// request takes a thing or a place in a queue.
func (q *Queue[T]) request(background bool) (thing T, waiting chan T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.free); n > 0 {
		thing, q.free = q.free[n-1], q.free[:n-1]
		return thing, nil
	}
	waiting = make(chan T, 1)
	if background {
		q.back = append(q.back, waiting)
	} else {
		q.front = append(q.front, waiting)
	}
	return thing, waiting
}

// withdraw gives up a place in a queue, and the thing if it has arrived meanwhile.
func (q *Queue[T]) withdraw(waiting chan T) {
	q.mu.Lock()
	is := func(w chan T) bool { return w == waiting }
	q.front, q.back = slices.DeleteFunc(q.front, is), slices.DeleteFunc(q.back, is)
	q.mu.Unlock()
	select {
	case thing := <-waiting:
		q.Give(thing)
	default:
	}
}

// Give passes the thing to the next waiting call.
func (q *Queue[T]) Give(thing T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := &q.front
	switch {
	case len(q.front) == 0 && len(q.back) == 0:
		q.free = append(q.free, thing)
		return
	case len(q.back) == 0:
	case len(q.front) == 0 || q.turns >= foregroundTurns:
		queue, q.turns = &q.back, 0
	default:
		q.turns++
	}
	next := (*queue)[0]
	*queue = slices.Delete(*queue, 0, 1)
	next <- thing
}

// Waiting returns how many foreground and background calls wait.
func (q *Queue[T]) Waiting() (foreground, background int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.front), len(q.back)
}

// Close returns the things that are free. No more may be taken.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := q.free
	q.free = nil
	return free
}
