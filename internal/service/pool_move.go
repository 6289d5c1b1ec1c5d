package service

import (
	"context"
	"fmt"
	"slices"

	"fleet/internal/fleet"
)

// MoveAgent moves the agent to the pool, or out of its pool if poolRef is empty. It is not an error if the agent is there already. The
// returned text tells people where the agent is.
func (s *Service) MoveAgent(ctx context.Context, ref, poolRef, requestID string) (*fleet.AgentView, string, error) {
	c := Call{Method: "MoveAgent", RequestID: requestID, Body: []string{ref, poolRef}}
	v, p, err := s.agent(ctx, ref, fleet.AccessOwn)
	var to *fleet.Pool
	if err == nil {
		to, err = s.poolToMoveTo(ctx, p, poolRef)
	}
	if err == nil {
		err = s.checkRoomToMove(v, to)
	}
	c.Refusal = err
	v, err = s.changeAgent(ctx, c, v, fleet.AccessOwn, func(tx fleet.Tx, a *fleet.Agent) (*fleet.Event, error) {
		if err := checkMovable(a, to); err != nil || inPool(a, to) {
			return nil, err
		}
		text := "moved out of the pool " + a.Pool
		if err := s.leavePool(tx, a); err != nil {
			return nil, err
		}
		if to != nil {
			s.joinPool(a, to)
			text = "moved to the pool " + to.Name
		}
		return a.Event(fleet.EventAgentChanged, s.now(), text+" by "+p.Name), nil
	})
	if err != nil {
		return nil, "", err
	}
	if v.Pool == "" {
		return v, fmt.Sprintf("Agent '%s' is in no pool", v.Name), nil
	}
	return v, fmt.Sprintf("Agent '%s' is in the pool %s", v.Name, v.Pool), nil
}

// poolToMoveTo returns the pool that ref names; nil if ref is empty.
func (s *Service) poolToMoveTo(ctx context.Context, p fleet.Principal, ref string) (*fleet.Pool, error) {
	if ref == "" {
		return nil, nil //nolint:nilnil // out of a pool
	}
	return s.openPool(ctx, p, ref)
}

// inPool reports whether the agent is in the pool or, if pool is nil, in no pool.
func inPool(a *fleet.Agent, pool *fleet.Pool) bool {
	if pool == nil {
		return a.Pool == ""
	}
	return a.Pool == pool.Name && a.Owner == pool.Owner
}

// checkMovable returns why the agent cannot be moved to the pool or, if pool is nil, out of its pool; nil if it can.
func checkMovable(a *fleet.Agent, pool *fleet.Pool) error {
	refuse := func(format string, args ...any) error {
		return fleet.InvalidField("pool", format, args...).With("agent_name", a.Name)
	}
	switch {
	case a.OneTask || a.MaxIdle > 0:
		return refuse("agent %q was created for one task: it is in no pool, and is deleted after that", a.Name)
	case pool == nil:
		return nil
	case a.Owner != pool.Owner:
		return refuse("agent %q belongs to %s, and the pool %q to %s", a.Name, a.Owner, pool.Name, pool.Owner)
	case !pool.Matches(a):
		return refuse("agent %q has the role %s in the project %s, and agents of the pool %q have the role %s in the project %s", a.Name, a.Role, a.Project, pool.Name, pool.Role, pool.Project)
	case pool.Reuse == fleet.ReuseFresh:
		return refuse("the pool %q creates an agent for each task, so no other agent can be in it", pool.Name)
	}
	return nil
}

// checkRoomToMove returns LIMIT_REACHED if the pool has as many agents as it may have, and v is not one of them.
func (s *Service) checkRoomToMove(v *fleet.AgentView, pool *fleet.Pool) error {
	if pool == nil || inPool(&v.Agent, pool) {
		return nil
	}
	return checkPoolRoom(pool, s.countAgents(pool))
}

// checkPoolRoom returns LIMIT_REACHED if agents, the number of the pool's agents, is already the maximum.
func checkPoolRoom(pool *fleet.Pool, agents int) error {
	if agents < pool.MaxAgents {
		return nil
	}
	return fleet.Errorf(fleet.ReasonLimitReached, "the pool %q has %d agents, and may have %d", pool.Name, agents, pool.MaxAgents).
		AtLimit("max_agents", int64(agents), int64(pool.MaxAgents)).Next("{update_pool} raises max_agents").With("pool", pool.Name)
}

// countAgents returns the number of agents of the pool.
func (s *Service) countAgents(pool *fleet.Pool) (n int) {
	for _, v := range s.snap.All() {
		if inPool(&v.Agent, pool) {
			n++
		}
	}
	return n
}

// joinPool adds the pool's labels and shares to the agent, like those of agents that are created for the pool.
func (s *Service) joinPool(a *fleet.Agent, pool *fleet.Pool) {
	a.Pool, a.Labels = pool.Name, a.Labels.With(pool.Labels).With(fleet.Labels{poolLabel: pool.Name})
	for _, share := range s.poolShares(pool) {
		if shareIndex(a, share.Grantee) < 0 {
			a.Shares = append(slices.Clone(a.Shares), share)
		}
	}
}

// leavePool takes the agent out of its pool, if it is in one. It removes from the agent the label with the pool's name, and the shares
// with the pool's groups. If the pool was deleted, the shares stay. The caller writes the agent.
func (s *Service) leavePool(tx fleet.ReadTx, a *fleet.Agent) error {
	if a.Pool == "" {
		return nil
	}
	pool, err := s.pools().read(tx, fleet.OwnedKey(a.Pool, a.Owner))
	if err != nil {
		return err
	}
	a.Pool, a.Labels = "", a.Labels.With(nil, poolLabel)
	if pool == nil {
		return nil
	}
	a.Shares = slices.DeleteFunc(slices.Clone(a.Shares), func(share fleet.Share) bool { return slices.Contains(pool.Groups, share.Group) })
	if len(a.Shares) == 0 {
		a.Shares = nil
	}
	return nil
}
