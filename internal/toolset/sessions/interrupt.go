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
	if err := s.core.RequestTaskStop(ctx, running.ID); err != nil {
		return nil, err
	}
	return s.core.FollowTask(ctx, running.ID, 0, nil)
}

// listeners counts, for each turn, the calls that wait for its answer.
type listeners struct {
	mu        sync.Mutex
	closed    bool
	count     map[string]int            // by task
	scheduled map[string]*scheduledCall // the scheduled calls for turns that nobody waits for, by task
	running   sync.WaitGroup            // counts the scheduled calls that are running
}

func newListeners() *listeners {
	return &listeners{count: map[string]int{}, scheduled: map[string]*scheduledCall{}}
}

// join counts a call that waits for the turn, and cancels the call that leave has scheduled for the turn, if there is one.
func (l *listeners) join(task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[task]++
	if c := l.scheduled[task]; c != nil {
		c.timer.Stop()
		delete(l.scheduled, task)
	}
}

// leave undoes join, and reports whether nobody else waits for the turn. If nobody does and then is not nil, leave
// schedules a call of then after the grace period. A join within this time cancels the call.
func (l *listeners) leave(task string, grace time.Duration, then func()) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[task]--; l.count[task] > 0 {
		return false
	}
	delete(l.count, task)
	if then == nil || l.closed {
		return true
	}
	c := &scheduledCall{}
	c.timer = time.AfterFunc(grace, func() {
		if l.claim(task, c) {
			defer l.running.Done()
			then()
		}
	})
	l.scheduled[task] = c
	return true
}

// scheduledCall is a call that leave has scheduled. Its address identifies it.
type scheduledCall struct{ timer *time.Timer }

// claim reports whether the scheduled call is still due. If so, it removes the call and adds it to l.running, so that
// close waits for it.
func (l *listeners) claim(task string, c *scheduledCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.scheduled[task] != c {
		return false
	}
	delete(l.scheduled, task)
	l.running.Add(1)
	return true
}

// close cancels the scheduled calls and waits for those that are running.
func (l *listeners) close() {
	l.mu.Lock()
	l.closed = true
	for _, c := range l.scheduled {
		c.timer.Stop()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// callerJoined counts a call that waits for the turn. If the message has a request id, joined also tells the other servers, where
// the same call may have been made before.
func (s *Service) callerJoined(ctx context.Context, task, requestID string) {
	s.listeners.join(task)
	if requestID == "" {
		return
	}
	if err := s.core.MarkWaiting(ctx, task, s.process, s.cfg.TurnTimeout+s.cfg.AbortGrace); err != nil && ctx.Err() == nil {
		s.cfg.Logger.WarnContext(ctx, "other servers not told that a caller waits for a turn", slog.String("task", task), slog.Any("error", err))
	}
}

// callerLeft undoes joined after a call has stopped waiting for the turn. gaveUp says that the caller disconnected before the
// answer. Then callerLeft interrupts the turn if no other call waits for it. If the message has a request id, callerLeft waits
// AbortGrace first, since the caller may only have lost the connection and may retry, also at another server. It interrupts
// nothing that continues after the call (fleet.Continues): the answer is in the history.
func (s *Service) callerLeft(ctx context.Context, task, requestID string, gaveUp bool) {
	grace := s.cfg.AbortGrace
	if requestID == "" {
		grace = 0
	}
	lasting := context.WithoutCancel(ctx)
	stop := func() { s.interruptAbandoned(lasting, task) }
	if !gaveUp || fleet.Continues(ctx) {
		stop = nil
	}
	if !s.listeners.leave(task, grace, stop) || requestID == "" {
		return
	}
	limited, cancel := context.WithTimeout(lasting, interruptTimeout)
	defer cancel()
	if err := s.core.UnmarkWaiting(limited, task, s.process); err != nil {
		s.cfg.Logger.WarnContext(ctx, "other servers not told that no caller waits for a turn", slog.String("task", task), slog.Any("error", err))
	}
}

// interruptAbandoned stops the turn unless a caller of another server waits for it.
func (s *Service) interruptAbandoned(ctx context.Context, task string) {
	ctx, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()
	waits, err := s.core.OthersWait(ctx, task, s.process)
	if err == nil && !waits {
		err = s.core.RequestTaskStop(ctx, task)
	}
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "abandoned turn not interrupted", slog.String("task", task), slog.Any("error", err))
	}
}

// interruptTimeout limits the duration of the request that interrupts a turn that nobody waits for.
const interruptTimeout = 10 * time.Second
