// Package turn decides which transaction runs next when there are more transactions than connections. Both stores call
// it. It must never know what the transactions do.
package turn

import (
	"context"
	"slices"
	"sync"

	"fleet/internal/fleet"
)

// maxPasses is how many foreground calls may pass a waiting background call that is allowed to have an item.
const maxPasses = 4

// Queue hands out a fixed number of items, such as connections. It serves calls in order, but foreground calls pass
// waiting background calls. Background calls have at most half of the items at the same time, rounded up. The other half
// is left for foreground calls. A background call is a call whose context has a lease. It belongs to a worker, so nobody
// waits for it.
type Queue[T any] struct {
	mu                     sync.Mutex
	free                   []T
	foreground, background []chan T
	passed                 int // how many foreground calls have passed waiting background calls since a background call was last served
	backgroundTaken        int // how many items background calls have
	maxBackground          int // limit of backgroundTaken
}

// NewQueue returns a queue that hands out the items.
func NewQueue[T any](items ...T) *Queue[T] {
	return &Queue[T]{free: items, maxBackground: (len(items) + 1) / 2}
}

// Acquire waits for an item. The caller must return it with Release, or return another item in its place. Acquire returns the
// error of ctx if ctx ends first.
func (q *Queue[T]) Acquire(ctx context.Context) (item T, err error) {
	if err := ctx.Err(); err != nil {
		return item, err
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
	case item = <-waiting:
		return item, nil
	case <-ctx.Done():
		q.withdraw(ctx, waiting)
		return item, ctx.Err()
	}
}

func isBackground(ctx context.Context) bool {
	_, leased := fleet.LeaseFrom(ctx)
	return leased
}

// withdraw removes the call from its queue. If an item has arrived meanwhile, withdraw returns it with Release.
func (q *Queue[T]) withdraw(ctx context.Context, waiting chan T) {
	q.mu.Lock()
	isWaiting := func(w chan T) bool { return w == waiting }
	q.foreground, q.background = slices.DeleteFunc(q.foreground, isWaiting), slices.DeleteFunc(q.background, isWaiting)
	q.mu.Unlock()
	select {
	case item := <-waiting:
		q.Release(ctx, item)
	default:
	}
}

// Release gives an item back to the queue. ctx must be the context that Acquire got.
func (q *Queue[T]) Release(ctx context.Context, item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if isBackground(ctx) {
		q.backgroundTaken--
	}
	q.free = append(q.free, item)
	q.serve()
}

// serve gives free items to waiting calls. The caller must hold mu.
func (q *Queue[T]) serve() {
	for len(q.free) > 0 {
		queue, backgroundAllowed := &q.foreground, len(q.background) > 0 && q.backgroundTaken < q.maxBackground
		switch {
		case backgroundAllowed && (len(q.foreground) == 0 || q.passed >= maxPasses):
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

// Close takes the free items out of the queue and returns them. Acquire must not be called afterwards.
func (q *Queue[T]) Close() []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	free := q.free
	q.free = nil
	return free
}
