package service

import (
	"context"

	"fleet/internal/fleet"
)

// planned is the agent that an item of a bulk operation is about. While a context has it, calls name no other agent, even if the name
// belongs to another one meanwhile, and they end and reach no task but the planned one.
type planned struct {
	uid, name string
	taskID    string // empty: none
	anyTask   bool   // the operation neither ends nor reaches the task of the agent
}

type plannedKey struct{}

func withPlanned(ctx context.Context, p *planned) context.Context {
	return context.WithValue(ctx, plannedKey{}, p)
}

// plannedFrom returns nil if the call does not belong to a bulk operation.
func plannedFrom(ctx context.Context) *planned {
	p, _ := ctx.Value(plannedKey{}).(*planned)
	return p
}

// allows returns PLAN_OUTDATED if the agent has another task than the plan says.
func (p *planned) allows(v *fleet.AgentView) error {
	if p == nil || p.anyTask || v.Task == nil || v.Task.ID == p.taskID {
		return nil
	}
	return fleet.Errorf(fleet.ReasonPlanOutdated, "agent %q has begun the task %s since the plan was made: make a new plan", v.Name, v.Task.ID).
		Next("{plan_bulk} makes one").With("agent_name", v.Name).With("task_id", v.Task.ID)
}

// plannedAgent returns the agent of the item, if p may see it.
func (s *Service) plannedAgent(ctx context.Context, p fleet.Principal, item *planned) (*fleet.AgentView, error) {
	if err := s.snap.RefreshAgents(ctx, item.uid); err != nil {
		return nil, err
	}
	v := s.snap.Get(item.uid)
	if v == nil || !p.Sees(&v.Agent) {
		return nil, fleet.AgentNotFound(item.name)
	}
	return v, item.allows(v)
}
