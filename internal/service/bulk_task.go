package service

import (
	"context"

	"fleet/internal/fleet"
)

// stopItems returns the items of a plan that stops tasks.
func (s *Service) stopItems(ctx context.Context, p fleet.Principal, req fleet.BulkRequest) ([]fleet.BulkItem, error) {
	if len(req.Names) > 0 {
		return s.namedTasks(ctx, p, req.Names)
	}
	selector, err := fleet.ParseSelector("selector", req.Selector)
	if err != nil {
		return nil, err
	}
	if err := s.queue.Refresh(ctx); err != nil {
		return nil, err
	}
	if err := s.refreshAgents(ctx); err != nil {
		return nil, err
	}
	var items []fleet.BulkItem
	for _, v := range s.snap.All() {
		if v.Task != nil && v.Task.Running() && v.Toolset == fleet.ToolsetFleet && selector.Matches(v.Task.Labels) && p.Access(&v.Agent).Allows(fleet.AccessRun) {
			items = append(items, stopItem(v.Task))
		}
	}
	for _, q := range s.queue.Tasks() {
		if q.Status == fleet.TaskPending && selector.Matches(q.Labels) && s.pendingAccess(p, q).Allows(fleet.AccessRun) {
			items = append(items, stopItem(&q.Task))
		}
	}
	return items, nil
}

// pendingAccess returns the access of p to the pending task.
func (s *Service) pendingAccess(p fleet.Principal, q *fleet.QueuedTask) fleet.Access {
	switch v := s.snap.Get(q.AgentUID); {
	case v != nil:
		return p.Access(&v.Agent)
	case p.OwnsAll(q.Owner):
		return fleet.AccessOwn
	case q.AgentUID == "":
		return accessToPending(p, q)
	}
	return fleet.AccessNone
}

// stopItem returns the item that stops the task.
func stopItem(t *fleet.Task) fleet.BulkItem {
	item := fleet.BulkItem{AgentUID: t.AgentUID, AgentName: t.AgentName, Owner: t.Owner, TaskID: t.ID}
	switch {
	case t.Status.Ended():
		item.Outcome, item.Message = fleet.BulkUnchanged, "it has ended already"
	case t.Status == fleet.TaskPending:
		item.Effect = "is stopped before it starts: " + t.Title()
	default:
		item.Effect = "is stopped: " + t.Title()
	}
	return item
}

// namedTasks returns the items that stop the named tasks. A name is the id of a task, or the name of the agent that runs it.
func (s *Service) namedTasks(ctx context.Context, p fleet.Principal, names []string) ([]fleet.BulkItem, error) {
	items := make([]fleet.BulkItem, 0, len(names))
	for _, name := range names {
		t, err := s.namedTask(ctx, p, name)
		var item fleet.BulkItem
		if err == nil {
			item = stopItem(t)
		} else if item.AgentName = name; !failItem(&item, err) {
			return nil, err
		}
		items = append(items, item)
	}
	return items, nil
}

// namedTask returns the running task of the agent with the name or, if there is no such agent, the task with that id.
func (s *Service) namedTask(ctx context.Context, p fleet.Principal, name string) (t *fleet.Task, err error) {
	v, _, agentErr := s.agent(ctx, name, fleet.AccessRun)
	switch {
	case agentErr == nil && v.Task != nil:
		return v.Task, nil
	case agentErr == nil:
		return nil, errNoRunningTask(v)
	case fleet.ReasonOf(agentErr) != fleet.ReasonAgentNotFound:
		return nil, agentErr
	}
	t, err = view(ctx, s.store, func(tx fleet.ReadTx) (*fleet.Task, error) { return s.task(tx, p, name, fleet.AccessRun) })
	if fleet.ReasonOf(err) == fleet.ReasonTaskNotFound {
		err = agentErr
	}
	return t, err
}
