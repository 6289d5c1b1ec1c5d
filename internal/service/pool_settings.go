package service

import (
	"context"
	"log/slog"
	"slices"

	"fleet/internal/fleet"
)

// SetPools replaces the pools of the configuration. Dispatch creates, changes and drains them.
func (s *Service) SetPools(all []fleet.PoolSetting) {
	s.poolSettings.Store(&all)
	s.forceDispatch()
}

// applyPools creates, changes and drains pools as the configuration says, if it has changed. A pool that cannot be used stays as it is. If
// the reason is a place that does not answer, the next call tries again.
func (s *Service) applyPools(ctx context.Context) error {
	settings := s.poolSettings.Load()
	if settings == nil {
		return nil
	}
	complete := true
	configured := map[string]bool{}
	for _, setting := range *settings {
		pool := setting.Pool()
		configured[pool.Key()] = true
		p, err := s.withLastGroups(ctx, pool.Principal())
		if err != nil {
			return err
		}
		var draft agentDraft
		err = s.askPlaces(fleet.WithPrincipal(ctx, p), setting.Project, func(ctx context.Context) (err error) {
			draft, err = s.draftWaitingAgent(ctx, CreateAgentRequest{Project: setting.Project, Role: setting.Role, Parameters: pool.Parameters})
			return err
		})
		if err != nil {
			s.log.WarnContext(ctx, "a pool of the configuration cannot be used", slog.String("pool", pool.Name), slog.Any("error", err))
			complete = complete && fleet.ReasonOf(err) != fleet.ReasonBackendUnavailable
			continue
		}
		pool.ProjectRole = fleet.ProjectRole{Place: draft.place.Name, Project: draft.project.Name, Role: draft.role.Name}
		if err := s.applyPool(ctx, pool); err != nil {
			return err
		}
	}
	for _, old := range s.queue.Pools() {
		if old.Configured && !old.Draining && !configured[old.Key()] {
			drained := *old
			drained.Draining = true
			if err := s.applyPool(ctx, drained); err != nil {
				return err
			}
		}
	}
	if complete {
		s.poolSettings.CompareAndSwap(settings, nil)
	}
	return nil
}

// applyPool writes the pool, unless the stored pool has the same settings.
func (s *Service) applyPool(ctx context.Context, pool fleet.Pool) error {
	known := s.queue.Pools()
	if i := slices.IndexFunc(known, func(old *fleet.Pool) bool { return old.Key() == pool.Key() }); i >= 0 && known[i].SameSetting(&pool) {
		return nil
	}
	return s.updateForDispatch(ctx, func(tx fleet.Tx) error {
		old, err := s.pools().read(tx, pool.Key())
		if err != nil || old != nil && old.SameSetting(&pool) {
			return err
		}
		if old == nil {
			pool.CreatedAt = s.now()
			return s.pools().put(tx, &pool, "is created by the configuration")
		}
		pool.CreatedAt, pool.CreatingUIDs = old.CreatedAt, old.CreatingUIDs
		return s.pools().put(tx, &pool, "is changed by the configuration")
	})
}
