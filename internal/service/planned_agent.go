package service

import (
	"context"

	"fleet/internal/fleet"
)

// plannedAgent is the agent of an item of a bulk operation. A call whose context has a plannedAgent is about this agent, even
// if another agent has the name meanwhile. Of the agent's tasks, the call affects only the planned one.
type plannedAgent struct {
	uid, name string
	taskID    string // empty: none
	anyTask   bool   // the agent may have any task, because the operation does not affect tasks
}

type plannedKey struct{}

func withPlannedAgent(ctx context.Context, p *plannedAgent) context.Context {
	return context.WithValue(ctx, plannedKey{}, p)
}

// plannedAgentFrom returns the planned agent of the call; nil if the call does not belong to a bulk operation.
func plannedAgentFrom(ctx context.Context) *plannedAgent {
	p, _ := ctx.Value(plannedKey{}).(*plannedAgent)
	return p
}

// checkTask returns PLAN_OUTDATED if the agent has another task than the plan says.
func (p *plannedAgent) checkTask(v *fleet.AgentView) error {
	if p == nil || p.anyTask || v.Task == nil || v.Task.ID == p.taskID {
		return nil
	}
	return fleet.Errorf(fleet.ReasonPlanOutdated, "agent %q has begun the task %s since the plan was made: make a new plan", v.Name, v.Task.ID).
		Next("{plan_bulk} makes one").With("agent_name", v.Name).With("task_id", v.Task.ID)
}

// findPlannedAgent returns the agent of the item. The error is AGENT_NOT_FOUND if p may not see it, and PLAN_OUTDATED if it has another
// task than the plan says.
func (s *Service) findPlannedAgent(ctx context.Context, p fleet.Principal, item *plannedAgent) (*fleet.AgentView, error) {
	if err := s.snap.RefreshAgents(ctx, item.uid); err != nil {
		return nil, err
	}
	v := s.snap.Get(item.uid)
	if v == nil || !p.Sees(&v.Agent) {
		return nil, fleet.AgentNotFound(item.name)
	}
	return v, item.checkTask(v)
}
