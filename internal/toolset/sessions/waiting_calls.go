package sessions

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// waitingCalls counts, for each turn, the calls that wait for its answer. After the last call has given up, it runs a function
// that stops the turn.
type waitingCalls struct {
	mu        sync.Mutex
	closed    bool
	count     map[string]int            // by task
	scheduled map[string]*scheduledStop // for turns that nobody waits for, by task
	running   sync.WaitGroup            // counts the stop functions that are running
}

func newWaitingCalls() *waitingCalls {
	return &waitingCalls{count: map[string]int{}, scheduled: map[string]*scheduledStop{}}
}

// add counts a call that waits for the turn, and cancels the stop that remove has scheduled for the turn, if there is one.
func (w *waitingCalls) add(task string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[task]++
	if c := w.scheduled[task]; c != nil {
		c.timer.Stop()
		delete(w.scheduled, task)
	}
}

// remove undoes add, and reports whether the call was the last one that waited for the turn. If it was the last and stop is
// not nil, remove runs stop in the background after the grace period. An add within this time prevents that.
func (w *waitingCalls) remove(task string, grace time.Duration, stop func()) (last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.count[task]--; w.count[task] > 0 {
		return false
	}
	delete(w.count, task)
	if stop == nil || w.closed {
		return true
	}
	c := &scheduledStop{}
	c.timer = time.AfterFunc(grace, func() {
		if w.claimStop(task, c) {
			defer w.running.Done()
			stop()
		}
	})
	w.scheduled[task] = c
	return true
}

// scheduledStop is a stop function that remove has scheduled. Its address identifies it.
type scheduledStop struct{ timer *time.Timer }

// claimStop reports whether the scheduled stop is still due. If so, it removes the stop and adds it to w.running, so that close
// waits for it.
func (w *waitingCalls) claimStop(task string, c *scheduledStop) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.scheduled[task] != c {
		return false
	}
	delete(w.scheduled, task)
	w.running.Add(1)
	return true
}

// close cancels the scheduled stops, waits for those that are running, and prevents new ones.
func (w *waitingCalls) close() {
	w.mu.Lock()
	w.closed = true
	for _, c := range w.scheduled {
		c.timer.Stop()
	}
	w.mu.Unlock()
	w.running.Wait()
}

// addWaitingCall counts a call that waits for the turn. If the message has a request id, the same call may also have been
// made at another server, so addWaitingCall tells the other servers.
func (s *Service) addWaitingCall(ctx context.Context, task, requestID string) {
	s.waitingCalls.add(task)
	if requestID == "" {
		return
	}
	if err := s.core.MarkWaiting(ctx, task, s.serviceID, s.cfg.TurnTimeout+s.cfg.AbortGrace); err != nil && ctx.Err() == nil {
		s.cfg.Logger.WarnContext(ctx, "other servers not told that a caller waits for a turn", slog.String("task", task), slog.Any("error", err))
	}
}

// removeWaitingCall undoes addWaitingCall after a call has stopped waiting for the turn. gaveUp means that the caller disconnected
// before the answer. The turn is then interrupted in the background, with two exceptions: another call waits for it, or the
// turn continues after the call (fleet.WorkContinues), and the caller finds the answer in the history. If the message has a
// request id, the interruption comes AbortGrace later: the caller may only have lost the connection, and may retry, also at
// another server.
func (s *Service) removeWaitingCall(ctx context.Context, task, requestID string, gaveUp bool) {
	grace := s.cfg.AbortGrace
	if requestID == "" {
		grace = 0
	}
	uncanceledCtx := context.WithoutCancel(ctx)
	stop := func() { s.interruptAbandoned(uncanceledCtx, task) }
	if !gaveUp || fleet.WorkContinues(ctx) {
		stop = nil
	}
	if !s.waitingCalls.remove(task, grace, stop) || requestID == "" {
		return
	}
	limitedCtx, cancel := context.WithTimeout(uncanceledCtx, interruptTimeout)
	defer cancel()
	if err := s.core.UnmarkWaiting(limitedCtx, task, s.serviceID); err != nil {
		s.cfg.Logger.WarnContext(ctx, "other servers not told that no caller waits for a turn", slog.String("task", task), slog.Any("error", err))
	}
}

// interruptAbandoned stops the turn unless a caller of another server waits for it.
func (s *Service) interruptAbandoned(ctx context.Context, task string) {
	ctx, cancel := context.WithTimeout(ctx, interruptTimeout)
	defer cancel()
	waits, err := s.core.OthersWait(ctx, task, s.serviceID)
	if err == nil && !waits {
		err = s.core.RequestTaskStop(ctx, task)
	}
	if err != nil {
		s.cfg.Logger.WarnContext(ctx, "abandoned turn not interrupted", slog.String("task", task), slog.Any("error", err))
	}
}

// interruptTimeout limits how long it may take to interrupt a turn that nobody waits for, or to tell the other servers that
// nobody waits.
const interruptTimeout = 10 * time.Second
