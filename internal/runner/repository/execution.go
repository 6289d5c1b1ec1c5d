package repository

import (
	"context"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// executions lets callers of the same check wait for one execution.
type executions struct {
	mu      sync.Mutex
	byHome  map[string]*execution
	running sync.WaitGroup
}

// execution is one execution of a check, for which several callers may wait.
type execution struct {
	waiters int // number of waiting callers
	ending  bool
	cancel  context.CancelFunc
	done    chan struct{}
	result  fleet.CheckResult
	err     error
}

// execute returns the result of check, or of a running execution for the same home. The context of check ends when nobody has waited for its
// result for the time linger.
func (s *executions) execute(ctx context.Context, home string, linger time.Duration, check func(context.Context) (fleet.CheckResult, error)) (fleet.CheckResult, error) {
	for {
		if err := ctx.Err(); err != nil {
			return fleet.CheckResult{}, err
		}
		c, ending := s.join(ctx, home, check)
		select {
		case <-c.done:
			if !ending {
				return c.result, c.err
			}
		case <-ctx.Done():
			if !ending {
				s.leave(c, linger)
			}
			return fleet.CheckResult{}, ctx.Err()
		}
	}
}

// join returns the execution for the home, and whether it is ending because nobody waits for it.
func (s *executions) join(ctx context.Context, home string, check func(context.Context) (fleet.CheckResult, error)) (c *execution, ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c = s.byHome[home]; c == nil {
		inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c = &execution{cancel: cancel, done: make(chan struct{})}
		if s.byHome == nil {
			s.byHome = map[string]*execution{}
		}
		s.byHome[home] = c
		s.running.Go(func() {
			defer cancel()
			c.result, c.err = check(inner)
			s.mu.Lock()
			delete(s.byHome, home)
			s.mu.Unlock()
			close(c.done)
		})
	}
	if !c.ending {
		c.waiters++
	}
	return c, c.ending
}

// leave removes a waiting caller. It ends the execution after the time linger if nobody waits for it then.
func (s *executions) leave(c *execution, linger time.Duration) {
	s.mu.Lock()
	c.waiters--
	idle := c.waiters == 0
	s.mu.Unlock()
	end := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.waiters == 0 {
			c.ending = true
			c.cancel()
		}
	}
	switch {
	case !idle:
	case linger == 0:
		end()
	default:
		time.AfterFunc(linger, end)
	}
}

// unlessRunning calls the function, and prevents an execution meanwhile. It does nothing if there is one.
func (s *executions) unlessRunning(home string, do func() (string, error)) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byHome[home] != nil {
		return "", nil
	}
	return do()
}
