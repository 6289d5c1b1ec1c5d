package sessions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Interrupt stops the running turn of a session, waits until the turn has ended, and returns its task. It returns nil
// if no turn is running. The session stays open.
func (s *Service) Interrupt(ctx context.Context, id string) (*fleet.Task, error) {
	v, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	running := v.Turn() // not v.Active, since an agent of the fleet may run a task outside the session
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
	late    map[string]*lateCall // the scheduled calls for turns that nobody waits for, by task
	running sync.WaitGroup       // counts the scheduled calls that are running
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

// leave undoes join. If nobody else waits for the turn and then is not nil, leave schedules a call of then after the
// grace period. A join within this time cancels the call.
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

// lateCall is a call that leave has scheduled. Its address identifies it.
type lateCall struct{ timer *time.Timer }

// take reports whether the scheduled call is still due. If so, it removes the call and adds it to l.running, so that
// close waits for it.
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

// close cancels the scheduled calls and waits for those that are running.
func (l *listeners) close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.late {
		c.timer.Stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// left undoes listeners.join after a call has stopped waiting for the turn. gaveUp says that the caller disconnected
// before the answer. Then left interrupts the turn if no other call waits for it. If the message has a request id, left
// waits AbortGrace first, since the caller may only have lost the connection and may retry. During a shutdown of the
// server, left interrupts nothing: agents outside the server continue, and their answers are in the history.
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

// interruptTimeout limits the duration of the request that interrupts a turn that nobody waits for.
const interruptTimeout = 10 * time.Second
