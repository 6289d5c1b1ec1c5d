package sessions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Interrupt ends the running turn of a session and returns its task after it has ended; nil if there is none. The
// session stays open.
func (s *Service) Interrupt(ctx context.Context, id string) (*fleet.Task, error) {
	v, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	running := v.Turn() // an agent of the fleet may run another caller's task
	if running == nil {
		return nil, nil
	}
	if err := s.core.AskStopTask(ctx, running.ID); err != nil {
		return nil, err
	}
	return s.core.FollowTask(ctx, running.ID, 0, nil)
}

// listeners counts, for each turn, the calls that wait for its answer.
type listeners struct {
	mu      sync.Mutex
	closed  bool
	count   map[string]int       // by task
	late    map[string]*lateCall // of turns that nobody waits for, by task
	running sync.WaitGroup       // work of the timers
}

func newListeners() *listeners {
	return &listeners{count: map[string]int{}, late: map[string]*lateCall{}}
}

// join counts a call that waits for the turn.
func (l *listeners) join(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[task]++
	if c := l.late[task]; c != nil {
		c.timer.Stop()
		delete(l.late, task)
	}
}

// leave undoes join. If nobody else waits for the turn, it calls then after the grace period, unless somebody joins
// before. A nil then is not called.
func (l *listeners) leave(task string, grace time.Duration, then func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[task]--; l.count[task] > 0 {
		return
	}
	delete(l.count, task)
	if then == nil || l.closed {
		return
	}
	c := &lateCall{}
	c.timer = time.AfterFunc(grace, func() {
		if l.take(task, c) {
			defer l.running.Done()
			then()
		}
	})
	l.late[task] = c
}

// lateCall is a call that leave has scheduled.
type lateCall struct{ timer *time.Timer }

// take reports whether the call is still due. If so, close waits until running.Done.
func (l *listeners) take(task string, c *lateCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.late[task] != c {
		return false
	}
	delete(l.late, task)
	l.running.Add(1)
	return true
}

// close stops the timers and waits for their work.
func (l *listeners) close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.late {
		c.timer.Stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// left ends listeners.join. When a caller gives up, the turn is interrupted: at once, or, if the message has a request
// id, after a while without a retry, since the caller may only have lost the connection. If the server ends the call by
// shutting down, nothing is interrupted: agents outside the server continue, and their answers are in the history.
func (s *Service) left(ctx context.Context, task, requestID string, gaveUp bool) {
	if !gaveUp || fleet.ShuttingDown(ctx) {
		s.listeners.leave(task, 0, nil)
		return
	}
	grace := s.cfg.AbortGrace
	if requestID == "" {
		grace = 0
	}
	ctx = context.WithoutCancel(ctx)
	s.listeners.leave(task, grace, func() {
		ctx, cancel := context.WithTimeout(ctx, interruptTimeout)
		defer cancel()
		if err := s.core.AskStopTask(ctx, task); err != nil {
			s.cfg.Logger.WarnContext(ctx, "abandoned turn not interrupted", slog.String("task", task), slog.Any("error", err))
		}
	})
}

// interruptTimeout limits the interruption of a turn that nobody waits for.
const interruptTimeout = 10 * time.Second
