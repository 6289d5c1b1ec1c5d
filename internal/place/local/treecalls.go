package local

import (
	"context"
	"sync"

	"fleet/internal/fleet"
)

// treeCalls lets callers of the same check wait for one execution.
type treeCalls struct {
	mu      sync.Mutex
	calls   map[home]*treeCall
	running sync.WaitGroup
}

// treeCall is an execution.
type treeCall struct {
	waiting int // callers
	ending  bool
	cancel  context.CancelFunc
	done    chan struct{}
	result  fleet.CheckResult
	err     error
}

// do returns the result of check, or of a running execution for the same home. The context of check ends when no caller waits any more.
func (s *treeCalls) do(ctx context.Context, h home, check func(context.Context) (fleet.CheckResult, error)) (fleet.CheckResult, error) {
	for {
		if err := ctx.Err(); err != nil {
			return fleet.CheckResult{}, err
		}
		call, ending := s.join(ctx, h, check)
		select {
		case <-call.done:
			if !ending {
				return call.result, call.err
			}
		case <-ctx.Done():
			if !ending {
				s.leave(call)
			}
			return fleet.CheckResult{}, ctx.Err()
		}
	}
}

// join returns the execution for the home, and whether it is ending because nobody waits for it.
func (s *treeCalls) join(ctx context.Context, h home, check func(context.Context) (fleet.CheckResult, error)) (call *treeCall, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call = s.calls[h]; call == nil {
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
		call = &treeCall{cancel: cancel, done: make(chan struct{})}
		if s.calls == nil {
			s.calls = map[home]*treeCall{}
		}
		s.calls[h] = call
		s.running.Go(func() {
			defer cancel()
			call.result, call.err = check(inner)
			s.mu.Lock()
			delete(s.calls, h)
			s.mu.Unlock()
			close(call.done)
		})
	}
	if !call.ending {
		call.waiting++
	}
	return call, call.ending
}

// leave ends the execution if no other caller waits for it.
func (s *treeCalls) leave(call *treeCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.waiting--; call.waiting == 0 {
		call.ending = true
		call.cancel()
	}
}

// unlessRunning calls the function, and prevents an execution meanwhile. It does nothing if there is one.
func (s *treeCalls) unlessRunning(h home, do func(home) (string, error)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[h] != nil {
		return "", nil
	}
	return do(h)
}
