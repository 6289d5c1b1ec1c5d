package postgres

import (
	"context"
	"sync"
)

// batcher runs concurrent calls together: all calls that arrive during a run share the next run. So a few commits serve many
// concurrent calls.
type batcher[T any] struct {
	run func([]*T) error // runs the calls and sets their results in them

	mu      sync.Mutex
	running bool
	next    *batch[T] // the waiting calls; nil if no call waits
}

// batch holds the calls that share a run.
type batch[T any] struct {
	calls []*T
	err   error
	done  chan struct{} // closed after the run
}

// do runs the call, together with other waiting calls. If the context ends first, do returns its error, but the call
// may still be run.
func (b *batcher[T]) do(ctx context.Context, call *T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b.mu.Lock()
	if b.next == nil {
		b.next = &batch[T]{done: make(chan struct{})}
	}
	joined := b.next
	joined.calls = append(joined.calls, call)
	if !b.running {
		b.running = true
		go b.serve()
	}
	b.mu.Unlock()
	select {
	case <-joined.done:
		return joined.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve runs the waiting calls until no call waits.
func (b *batcher[T]) serve() {
	for {
		b.mu.Lock()
		current := b.next
		b.next, b.running = nil, current != nil
		b.mu.Unlock()
		if current == nil {
			return
		}
		current.err = b.run(current.calls)
		close(current.done)
	}
}
