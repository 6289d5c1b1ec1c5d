package service

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/queue"
	"fleet/internal/state"
)

// maxPoolBackoff is how long a pool waits at most after a failed creation. The time begins with state.Config.PoolBackoff and doubles with
// each further failure.
const maxPoolBackoff = 10 * time.Minute

// adjustPools creates and retires agents as the decision says, and removes drained pools. A creation that is refused is recorded in
// the pool and is not an error, so it does not keep tasks from starting.
func (s *Service) adjustPools(ctx context.Context, d queue.Decision) error {
	for _, pool := range s.queue.Pools() {
		if n := d.Create[pool]; n > 0 {
			if err := s.growPool(ctx, pool, n); err != nil {
				return err
			}
		}
	}
	for _, a := range d.Retire {
		if err := s.retireAgent(ctx, a.UID); err != nil {
			return err
		}
	}
	return s.removeDrainedPools(ctx)
}

// settleCreations records in the pools which of the agents that they create are ready, and which have failed.
func (s *Service) settleCreations(ctx context.Context) error {
	if err := s.snap.Refresh(ctx); err != nil {
		return err
	}
	for _, pool := range s.queue.Pools() {
		if err := s.settleCreationsOf(ctx, pool); err != nil {
			return err
		}
	}
	return nil
}

// settleCreationsOf records the results of the pool's creations, and requests the deletion of the agents that could not be created.
func (s *Service) settleCreationsOf(ctx context.Context, pool *fleet.Pool) error {
	settled := func(a *fleet.AgentView) bool { return a == nil || a.Settled() || a.Desired == fleet.DesiredDeleted }
	if !slices.ContainsFunc(pool.CreatingUIDs, func(uid string) bool { return settled(s.snap.Get(uid)) }) {
		return nil
	}
	return s.changePool(ctx, pool.Key(), func(tx fleet.Tx, pool *fleet.Pool) (string, error) {
		var failed []*fleet.Agent
		var ready []string
		var err error
		before := len(pool.CreatingUIDs)
		pool.CreatingUIDs = slices.DeleteFunc(pool.CreatingUIDs, func(uid string) bool {
			a, readErr := tx.Agent(uid)
			if readErr != nil {
				err = readErr
				return false
			}
			switch {
			case a == nil:
			case a.RefusalReason != "" || a.Settled() && (a.State == fleet.StateFailed || a.State == fleet.StateUnhealthy):
				failed = append(failed, a)
			case a.State == fleet.StateRunning && a.Settled():
				ready = append(ready, a.Name)
			default:
				return a.Settled() || a.Desired == fleet.DesiredDeleted
			}
			return true
		})
		switch {
		case err != nil || len(pool.CreatingUIDs) == before:
			return "", err
		case len(failed) > 0:
		case len(ready) > 0:
			pool.Failures, pool.FailureReason, pool.RetryAt = 0, "", time.Time{}
			return "has created " + fleet.JoinNames(ready), nil
		default:
			return "no longer waits for an agent that somebody stopped or deleted", nil
		}
		for _, a := range failed {
			s.recordPoolFailure(pool, reasonOrUnknown(a.StateReason))
			if err := s.requestDeletion(tx, a, "its creation for the pool failed"); err != nil {
				return "", err
			}
		}
		text := "could not create an agent: " + pool.FailureReason
		if pool.Paused() {
			text += "; it creates no more agents until it is changed"
		}
		return text, nil
	})
}

// recordPoolFailure records a failed creation, and when the pool may create the next agent.
func (s *Service) recordPoolFailure(pool *fleet.Pool, why string) {
	pool.Failures++
	pool.FailureReason = fleet.Shorten(why, 500)
	wait := time.Duration(float64(s.cfg.PoolBackoff) * math.Pow(2, float64(pool.Failures-1)))
	pool.RetryAt = s.now().Add(min(wait, maxPoolBackoff))
}

// growPool begins to create count agents for the pool. If that is refused, it records a failure of the pool and returns nil. If
// askPlaces does not ask the place of the pool, growPool does nothing.
func (s *Service) growPool(ctx context.Context, pool *fleet.Pool, count int) error {
	p, err := s.withLastGroups(ctx, pool.Principal())
	if err != nil {
		return err
	}
	var draft agentDraft
	project := pool.Place + "/" + pool.Project
	err = s.askPlaces(fleet.WithPrincipal(ctx, p), project, func(ctx context.Context) (err error) {
		draft, err = s.draftAgent(ctx, CreateAgentRequest{
			Project: project, Role: pool.Role, Spec: pool.Spec, Parameters: pool.Parameters, Labels: pool.Labels.With(fleet.Labels{poolLabel: pool.Name}),
		})
		return err
	})
	draft.pool, draft.oneTask, draft.shares = pool.Name, pool.Reuse == fleet.ReuseFresh, s.poolShares(pool)
	for err == nil && count > 0 {
		nameTaken := false
		err = s.changePool(ctx, pool.Key(), func(tx fleet.Tx, pool *fleet.Pool) (string, error) {
			draft.Name = s.generatedName(pool.Name)
			a, err := s.insertAgent(ctx, tx, p, draft)
			if nameTaken = fleet.ReasonOf(err) == fleet.ReasonAgentExists; nameTaken { // another name is tried
				return "", nil
			}
			if err != nil {
				return "", err
			}
			pool.CreatingUIDs = append(pool.CreatingUIDs, a.UID)
			return "creates " + a.Name, nil
		})
		if !nameTaken {
			count--
		}
	}
	switch {
	case errors.Is(err, errNotAsked): // the next call of Dispatch asks
		return nil
	case err == nil || fleet.ReasonOf(err) == fleet.ReasonInternal || ctx.Err() != nil:
		return err
	}
	return s.changePool(ctx, pool.Key(), func(_ fleet.Tx, pool *fleet.Pool) (string, error) {
		s.recordPoolFailure(pool, fleet.PublicMessage(err))
		return "could not create an agent: " + pool.FailureReason, nil
	})
}

// poolLabel is the label of the agents of a pool, with the name of the pool.
const poolLabel = "pool"

// poolShares returns the shares that the agents of the pool get: AccessRun for each group of the pool.
func (s *Service) poolShares(pool *fleet.Pool) (shares []fleet.Share) {
	for _, g := range pool.Groups {
		shares = append(shares, fleet.Share{Grantee: fleet.Grantee{Group: g}, Access: fleet.AccessRun, By: pool.Owner, At: s.now()})
	}
	return shares
}

// changePool changes the pool with the key for the dispatcher, and does nothing if the pool no longer exists. change returns the text of
// the event, or "" if nothing changes.
func (s *Service) changePool(ctx context.Context, key string, change func(fleet.Tx, *fleet.Pool) (string, error)) error {
	return s.updateForDispatch(ctx, func(tx fleet.Tx) error {
		pool, err := s.pools().read(tx, key)
		if err != nil || pool == nil {
			return err
		}
		text, err := change(tx, pool)
		if err != nil || text == "" {
			return err
		}
		return s.pools().put(tx, pool, text)
	})
}

// retireAgent requests the deletion of an agent that has been idle for too long or whose pool is being deleted, unless it has a
// running or pending task by now. Its work is kept like that of any deleted agent.
func (s *Service) retireAgent(ctx context.Context, uid string) error {
	return s.updateForDispatch(ctx, func(tx fleet.Tx) error {
		v, err := state.ReadAgentView(tx, uid)
		if err != nil || v == nil || v.Task != nil || v.Desired == fleet.DesiredDeleted || v.Foreign() {
			return err
		}
		if waiting, err := pendingTask(tx, uid); err != nil || waiting != nil {
			return err
		}
		s.log.InfoContext(ctx, "pool agent retired", slog.String("agent", v.Name), slog.String("pool", v.Pool))
		return s.requestDeletion(tx, &v.Agent, "deleted because its pool does not need it any more")
	})
}

// requestDeletion requests the deletion of the agent, unless it was requested before. The text is that of the event.
func (s *Service) requestDeletion(tx fleet.Tx, a *fleet.Agent, text string) error {
	if a.Desired == fleet.DesiredDeleted || !a.DeletedAt.IsZero() {
		return nil
	}
	a.Desired, a.Attempts, a.RetryAt, a.UpdatedAt = fleet.DesiredDeleted, 0, time.Time{}, s.now()
	if err := tx.Update(a); err != nil {
		return err
	}
	return tx.Append(a.Event(fleet.EventAgentChanged, a.UpdatedAt, text))
}

// removeDrainedPools removes the pools that are being deleted and have neither agents nor tasks.
func (s *Service) removeDrainedPools(ctx context.Context) error {
	for _, pool := range s.queue.Pools() {
		if !pool.Draining {
			continue
		}
		v, err := s.poolView(ctx, pool)
		if err != nil {
			return err
		}
		if len(v.Agents) > 0 || v.Waiting > 0 {
			continue
		}
		err = s.updateForDispatch(ctx, func(tx fleet.Tx) error {
			return s.pools().remove(tx, pool, "was deleted")
		})
		if err != nil {
			return err
		}
	}
	return nil
}
