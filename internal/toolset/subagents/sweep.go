package subagents

import (
	"context"
	"log/slog"

	"fleet/internal/fleet"
	"fleet/internal/toolset/conversation"
)

// Start begins to call sweep in the background: at once, and then after every SweepEvery.
func (s *Service) Start() {
	s.sweeper = conversation.StartSweeper(s.config.SweepEvery, func(ctx context.Context) {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.config.Logger.WarnContext(ctx, "abandoned subagents not removed, retrying later", slog.Any("error", err))
		}
	})
}

// Stop ends the calls of sweep, and waits for one that is running.
func (s *Service) Stop() { s.sweeper.Stop() }

// sweep deletes agents that nobody will use any more, because the call that should delete them was interrupted, for
// example by a crash. These agents belong to no conversation, have no task, and have not changed for SweepEvery.
func (s *Service) sweep(ctx context.Context) error {
	_, agents, err := s.core.AllSessions(ctx, fleet.ToolsetSubagents)
	if err != nil {
		return err
	}
	for _, v := range agents {
		isRecent := s.config.Now().Sub(v.UpdatedAt) < s.config.SweepEvery
		if v.Task != nil || v.Desired != fleet.DesiredRunning || v.State.Moving() || isRecent {
			continue
		}
		if err := s.core.RemoveUnusedAgent(fleet.WithPrincipal(ctx, fleet.Principal{Name: v.Owner}), v); err != nil {
			return err
		}
	}
	return nil
}
