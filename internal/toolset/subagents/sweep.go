package subagents

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// Start starts the periodic search for agents that calls have left behind.
func (s *Service) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.done.Go(func() {
		tick := time.NewTicker(s.cfg.SweepEvery)
		defer tick.Stop()
		for {
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Logger.WarnContext(ctx, "subagents that were left behind were not removed and are later", slog.Any("error", err))
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
	if s.stop != nil {
		s.stop()
		s.done.Wait()
	}
}

// sweep deletes agents that nobody will use any more, because the call that should delete them was interrupted, for
// example by a crash.
func (s *Service) sweep(ctx context.Context) error {
	var left []*fleet.AgentView
	err := s.store.View(ctx, func(tx fleet.ReadTx) error {
		left = nil
		sessions, err := tx.Sessions(fleet.ToolsetSubagents, "")
		if err != nil {
			return err
		}
		talks := map[string]bool{}
		for _, session := range sessions {
			talks[session.AgentUID] = true
		}
		agents, err := tx.LiveAgentViews()
		for _, v := range agents {
			old := s.cfg.Now().Sub(v.UpdatedAt) >= s.cfg.SweepEvery
			if v.Toolset == fleet.ToolsetSubagents && v.Task == nil && !talks[v.UID] && v.Desired == fleet.DesiredRunning && !v.State.Moving() && old {
				left = append(left, v)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range left {
		if err := s.fleet.Remove(fleet.WithPrincipal(ctx, fleet.Principal{Name: v.Owner}), v.UID); err != nil {
			return err
		}
	}
	return nil
}
