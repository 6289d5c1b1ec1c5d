package postgres

import (
	"context"
	"sync"
)

// gather lets calls that come during a run share the next run, so that many calls at the same time need few commits.
type gather[T any] struct {
	run func([]*T) error // sets the results in the calls

	mu      sync.Mutex
	running bool
	next    *gathered[T] // what waiting calls share; nil if none waits
}

// gathered are the calls that share a run.
type gathered[T any] struct {
	calls []*T
	err   error
	done  chan struct{} // closed after the run
}

// do runs the call, with others if there are any. If the context ends first, the call may be run all the same.
func (g *gather[T]) do(ctx context.Context, call *T) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	if g.next == nil {
		g.next = &gathered[T]{done: make(chan struct{})}
	}
	mine := g.next
	mine.calls = append(mine.calls, call)
	if !g.running {
		g.running = true
		go g.serve()
	}
	g.mu.Unlock()
	select {
	case <-mine.done:
		return mine.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serve runs waiting calls until none waits.
func (g *gather[T]) serve() {
	for {
		g.mu.Lock()
		now := g.next
		g.next, g.running = nil, now != nil
		g.mu.Unlock()
		if now == nil {
			return
		}
		now.err = g.run(now.calls)
		close(now.done)
	}
}
