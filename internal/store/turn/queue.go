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
// waiting background calls. Background calls have at most half of the things at the same time, rounded up. The other half
// is left for foreground calls. A background call is a call whose context has a lease. It belongs to a worker, so nobody
// waits for it.
type Queue[T any] struct {
	mu                     sync.Mutex
	free                   []T
	foreground, background []chan T
	passed                 int // how many foreground calls have passed the first waiting background call
	backgroundTaken        int // how many things background calls have
	maxBackground          int // limit of backgroundTaken
}

// NewQueue returns a queue that hands out the things.
func NewQueue[T any](things ...T) *Queue[T] {
	return &Queue[T]{free: things, maxBackground: (len(things) + 1) / 2}
}

// Take waits for a thing. The caller must return it with Give, or give another thing in its place. Take returns the
// error of ctx if ctx ends first.
func (q *Queue[T]) Take(ctx context.Context) (thing T, err error) {
	if err := ctx.Err(); err != nil {
		return thing, err
	}
	waiting := make(chan T, 1)
	q.mu.Lock()
	if isBackground(ctx) {
		q.background = append(q.background, waiting)
	} else {
		q.foreground = append(q.foreground, waiting)
	}
	q.serve()
	q.mu.Unlock()
	select {
	case thing = <-waiting:
		return thing, nil
	case <-ctx.Done():
		q.withdraw(ctx, waiting)
		return thing, ctx.Err()
	}
}

func isBackground(ctx context.Context) bool {
	_, leased := fleet.LeaseFrom(ctx)
	return leased
}

// withdraw removes the call from its queue. If a thing has arrived meanwhile, withdraw returns it with Give.
func (q *Queue[T]) withdraw(ctx context.Context, waiting chan T) {
	q.mu.Lock()
	isWaiting := func(w chan T) bool { return w == waiting }
	q.foreground, q.background = slices.DeleteFunc(q.foreground, isWaiting), slices.DeleteFunc(q.background, isWaiting)
	q.mu.Unlock()
	select {
	case thing := <-waiting:
		q.Give(ctx, thing)
	default:
	}
}

// Give gives a thing back. ctx must be the context that Take got.
func (q *Queue[T]) Give(ctx context.Context, thing T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if isBackground(ctx) {
		q.backgroundTaken--
	}
	q.free = append(q.free, thing)
	q.serve()
}

// serve gives free things to waiting calls. The caller must hold mu.
func (q *Queue[T]) serve() {
	for len(q.free) > 0 {
		queue, backgroundMay := &q.foreground, len(q.background) > 0 && q.backgroundTaken < q.maxBackground
		switch {
		case backgroundMay && (len(q.foreground) == 0 || q.passed >= foregroundTurns):
			queue, q.passed = &q.background, 0
			q.backgroundTaken++
		case len(q.foreground) == 0:
			return
		case len(q.background) > 0:
			q.passed++
		}
		last := len(q.free) - 1
		(*queue)[0] <- q.free[last]
		*queue, q.free = slices.Delete(*queue, 0, 1), q.free[:last]
	}
}

// Waiting returns how many foreground and background calls wait.
func (q *Queue[T]) Waiting() (foreground, background int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.foreground), len(q.background)
}

// Close returns the free things. Take must not be called afterwards.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := q.free
	q.free = nil
	return free
}
