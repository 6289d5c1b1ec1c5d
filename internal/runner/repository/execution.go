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
	waiters int  // number of waiting callers
	ending  bool // end was called
	// lingerTimer ends the execution when nobody has waited for it for a while. It is nil until all callers have left for the first time.
	lingerTimer *time.Timer
	cancel      context.CancelFunc
	done        chan struct{}
	result      fleet.CheckResult
	err         error
}

// execute runs check and returns its result. If an execution for the same home is running, execute returns the result of that
// execution instead. It cancels the context of check when no caller has waited for the result for the duration linger.
func (e *executions) execute(ctx context.Context, home string, linger time.Duration, check func(context.Context) (fleet.CheckResult, error)) (fleet.CheckResult, error) {
	for {
		if err := ctx.Err(); err != nil {
			return fleet.CheckResult{}, err
		}
		c, ending := e.join(ctx, home, check)
		select {
		case <-c.done:
			if !ending {
				return c.result, c.err
			}
		case <-ctx.Done():
			if !ending {
				e.leave(c, linger)
			}
			return fleet.CheckResult{}, ctx.Err()
		}
	}
}

// join returns the execution for the home, and starts one if there is none. ending means that the execution was cancelled because
// nobody waited for it. Otherwise, the caller counts as waiting until it calls leave or the execution is done.
func (e *executions) join(ctx context.Context, home string, check func(context.Context) (fleet.CheckResult, error)) (c *execution, ending bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c = e.byHome[home]; c == nil {
		checkCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c = &execution{cancel: cancel, done: make(chan struct{})}
		if e.byHome == nil {
			e.byHome = map[string]*execution{}
		}
		e.byHome[home] = c
		e.running.Go(func() {
			defer cancel()
			c.result, c.err = check(checkCtx)
			e.mu.Lock()
			delete(e.byHome, home)
			e.mu.Unlock()
			close(c.done)
		})
	}
	if !c.ending {
		c.waiters++
		if c.lingerTimer != nil {
			c.lingerTimer.Stop()
		}
	}
	return c, c.ending
}

// leave removes a waiting caller. If no caller is left, the execution ends after the duration linger, unless another caller has
// joined it by then.
func (e *executions) leave(c *execution, linger time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.waiters--; c.waiters > 0 {
		return
	}
	if linger == 0 {
		c.end()
		return
	}
	c.lingerTimer = time.AfterFunc(linger, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if c.waiters == 0 {
			c.end()
		}
	})
}

// end cancels the execution. Later callers wait until it has ended, and start another one. The lock of executions must be held.
func (c *execution) end() {
	c.ending = true
	c.cancel()
}

// unlessRunning calls do and returns its result. No execution begins meanwhile. If an execution for the home is running,
// unlessRunning returns "" and does not call do.
func (e *executions) unlessRunning(home string, do func() (string, error)) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byHome[home] != nil {
		return "", nil
	}
	return do()
}
