package sessions

import (
	"context"
	"errors"
	"log/slog"

	"fleet/internal/fleet"
	"fleet/internal/toolset/conversation"
)

// Start begins to call Sweep in the background: at once, and then after every SweepEvery.
func (s *Service) Start() {
	s.sweeper = conversation.StartSweeper(s.cfg.SweepEvery, func(ctx context.Context) {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "idle sessions not closed, retrying later", slog.Any("error", err))
		}
	})
}

// Stop cancels the scheduled interruptions of abandoned turns, and ends the calls of Sweep. It waits for interruptions and
// calls that are running. Stop also works without Start.
func (s *Service) Stop() {
	s.waitingCalls.close()
	s.sweeper.Stop()
}

// Sweep closes sessions that were idle for too long. It also removes agents that remain without a session because the
// creation or closing of a session was interrupted. It leaves the agents of Invoke, which the core deletes.
func (s *Service) Sweep(ctx context.Context) error {
	openSessions, otherAgents, err := s.core.AllSessions(ctx, fleet.ToolsetSessions)
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range openSessions {
		if s.isIdle(x.Session) && x.Turn() == nil && !s.turns.InProgress(x.ID) {
			_, err := s.closeUnused(ctx, x.Session, s.idleReason())
			errs = append(errs, err)
		}
	}
	for _, v := range otherAgents {
		if !v.OneTask {
			errs = append(errs, s.core.RemoveAgent(fleet.WithPrincipal(ctx, fleet.Principal{Name: v.Owner}), v.UID))
		}
	}
	return errors.Join(errs...)
}
