package sessions

import (
	"context"
	"errors"
	"log/slog"

	"fleet/internal/fleet"
	"fleet/internal/toolset/conversation"
)

// Close closes a session of the caller. It does not change a closed session.
func (s *Service) Close(ctx context.Context, id string) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	v, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	return s.close(ctx, v.Session, "closed by "+p.Name)
}

// close closes the session for the given reason and releases the messages that wait for their turn in it. If close is
// interrupted, it can be repeated.
func (s *Service) close(ctx context.Context, x *fleet.Session, reason string) error {
	err := s.core.CloseSession(ctx, x, reason)
	if err == nil {
		s.turns.Shut(x.ID)
	}
	return err
}

// closeUnused does the same as close, unless somebody has used the session since x was read. closed reports whether the
// session is closed.
func (s *Service) closeUnused(ctx context.Context, x *fleet.Session, reason string) (closed bool, err error) {
	closed, err = s.core.CloseUnused(ctx, x, reason)
	if closed && err == nil {
		s.turns.Shut(x.ID)
	}
	return closed, err
}

// Start starts the periodic search for idle sessions.
func (s *Service) Start() {
	s.sweeper = conversation.StartSweeper(s.cfg.SweepEvery, func(ctx context.Context) {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.WarnContext(ctx, "idle sessions not closed, retrying later", slog.Any("error", err))
		}
	})
}

// Stop ends the periodic search and the pending interruptions of abandoned turns, and waits until both have ended.
func (s *Service) Stop() {
	s.listeners.close()
	s.sweeper.Stop()
}

// Sweep closes sessions that were idle for too long. It also removes agents without a session, which remain when the
// creation or closing of a session is interrupted.
func (s *Service) Sweep(ctx context.Context) error {
	open, others, err := s.core.AllSessions(ctx, fleet.ToolsetSessions)
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range open {
		if s.isIdle(x.Session) && x.Turn() == nil && !s.turns.InProgress(x.ID) {
			_, err := s.closeUnused(ctx, x.Session, s.idleReason())
			errs = append(errs, err)
		}
	}
	for _, v := range others {
		if !v.OneTask {
			errs = append(errs, s.core.RemoveAgent(fleet.WithPrincipal(ctx, fleet.Principal{Name: v.Owner}), v.UID))
		}
	}
	return errors.Join(errs...)
}
