package sessions

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// callerJoined counts a call that waits for the turn. If the message has a request id, the same call may also have been
// made at another server, so callerJoined tells the other servers.
func (s *Service) callerJoined(ctx context.Context, task, requestID string) {
	s.listeners.join(task)
	if requestID == "" {
		return
	}
	if err := s.core.MarkWaiting(ctx, task, s.serviceID, s.cfg.TurnTimeout+s.cfg.AbortGrace); err != nil && ctx.Err() == nil {
		s.cfg.Logger.WarnContext(ctx, "other servers not told that a caller waits for a turn", slog.String("task", task), slog.Any("error", err))
	}
}

// callerLeft undoes callerJoined after a call has stopped waiting for the turn. gaveUp means that the caller disconnected
// before the answer. The turn is then interrupted in the background, with two exceptions: another call waits for it, or the
// turn continues after the call (fleet.WorkContinues), and the caller finds the answer in the history. If the message has a
// request id, the interruption comes AbortGrace later: the caller may only have lost the connection, and may retry, also at
// another server.
func (s *Service) callerLeft(ctx context.Context, task, requestID string, gaveUp bool) {
	grace := s.cfg.AbortGrace
	if requestID == "" {
		grace = 0
	}
	lasting := context.WithoutCancel(ctx)
	stop := func() { s.interruptAbandoned(lasting, task) }
	if !gaveUp || fleet.WorkContinues(ctx) {
		stop = nil
	}
	if !s.listeners.leave(task, grace, stop) || requestID == "" {
		return
	}
	limited, cancel := context.WithTimeout(lasting, interruptTimeout)
	defer cancel()
	if err := s.core.UnmarkWaiting(limited, task, s.serviceID); err != nil {
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
