// Package turn decides which transaction runs next when there are more transactions than connections. Both stores call
// it. It must never know what the transactions do.
package turn

import (
	"context"
	"slices"
	"sync"

	"fleet/internal/fleet"
)

// foregroundTurns is how many foreground calls may pass a waiting background call.
const foregroundTurns = 4

// Queue hands out a fixed number of things, such as connections. It serves calls in order, but foreground calls pass
// waiting background calls. A background call is a call whose context has a lease. It belongs to a worker, so nobody
// waits for it.
type Queue[T any] struct {
	mu          sync.Mutex
	free        []T
	front, back []chan T
	turns       int // foreground calls that have passed the first waiting background call
}

// NewQueue returns a queue that hands out the things.
func NewQueue[T any](things ...T) *Queue[T] { return &Queue[T]{free: things} }

// Take waits for a thing. The caller must return it with Give, or give another thing in its place. Take returns the
// error of ctx if ctx ends first.
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

// request returns a free thing. If there is none, it adds the call to a queue and returns the channel that will receive
// a thing.
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

// withdraw removes the call from its queue. If a thing has arrived meanwhile, withdraw returns it with Give.
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

// Give passes the thing to the next waiting call. If no call waits, the thing is free.
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

// Close returns the free things. Take must not be called afterwards.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := q.free
	q.free = nil
	return free
}
