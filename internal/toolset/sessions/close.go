package sessions

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// Close closes a session. It does not change a closed session.
func (s *Service) Close(ctx context.Context, id string) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	var x *fleet.Session
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		x, err = session(tx, p, id)
		return err
	})
	if err != nil {
		return err
	}
	return s.close(ctx, x, "closed by "+p.Name)
}

// close closes the session for the given reason and ends its turns. It can be repeated after an interruption.
func (s *Service) close(ctx context.Context, x *fleet.Session, reason string) error {
	var running *fleet.Task
	err := s.store.Update(ctx, func(tx fleet.Tx) error {
		now, err := tx.Session(x.ID)
		if err != nil || now == nil {
			return err
		}
		if running, err = tx.ActiveTask(x.AgentUID); err != nil {
			return err
		}
		if running != nil && running.SessionID != x.ID {
			running = nil
		}
		if !now.ClosedAt.IsZero() {
			return nil
		}
		now.ClosedAt, now.CloseReason = s.now(), reason
		if err := tx.UpdateSession(now); err != nil {
			return err
		}
		a, err := tx.Agent(x.AgentUID)
		if err != nil || a == nil {
			return err
		}
		return tx.Append(&fleet.Event{
			Time: now.ClosedAt, Type: fleet.EventAgentChanged, AgentUID: a.UID, AgentName: a.Name, Owner: x.Owner,
			Text: "session " + x.ID + " was closed: " + reason,
		})
	})
	if err != nil {
		return err
	}
	s.turns.shut(x.ID)
	ctx = fleet.WithPrincipal(ctx, fleet.Principal{Name: x.Owner})
	if Source(x.Source) == SourceFleet {
		if running != nil {
			return s.core.AskStopTask(ctx, running.ID)
		}
		return nil
	}
	if running != nil {
		if _, err := s.core.StopByUID(ctx, x.AgentUID); err != nil {
			return err
		}
	}
	return s.core.Remove(ctx, x.AgentUID)
}

// Start starts the periodic search for idle sessions.
func (s *Service) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.done.Go(func() {
		tick := time.NewTicker(s.cfg.SweepEvery)
		defer tick.Stop()
		for {
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "sessions that nobody uses were not closed and are later", slog.Any("error", err))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// Stop ends what Start began, and waits for it.
func (s *Service) Stop() {
	s.listeners.close()
	if s.stop != nil {
		s.stop()
		s.done.Wait()
	}
}

// Sweep closes sessions that were idle for too long. It also removes agents of sessions whose creation or closing was
// interrupted.
func (s *Service) Sweep(ctx context.Context) error {
	var idle []*fleet.Session
	var left []*fleet.AgentView
	err := s.store.View(ctx, func(tx fleet.ReadTx) error {
		idle, left = nil, nil
		open, err := tx.Sessions(fleet.ToolsetSessions, "")
		if err != nil {
			return err
		}
		held := map[string]bool{}
		for _, x := range open {
			held[x.AgentUID] = true
			if !s.idle(x) || s.turns.taken(x.ID) {
				continue
			}
			t, err := tx.ActiveTask(x.AgentUID)
			if err != nil {
				return err
			}
			if t == nil || t.SessionID != x.ID {
				idle = append(idle, x)
			}
		}
		agents, err := tx.LiveAgentViews()
		for _, v := range agents {
			if v.Toolset == fleet.ToolsetSessions && !v.OneTask && !held[v.UID] && v.Desired != fleet.DesiredDeleted {
				left = append(left, v)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range idle {
		errs = append(errs, s.close(ctx, x, s.idleReason()))
	}
	for _, v := range left {
		errs = append(errs, s.core.Remove(fleet.WithPrincipal(ctx, fleet.Principal{Name: v.Owner}), v.UID))
	}
	return errors.Join(errs...)
}
