package service

import (
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// joinTree makes t, a new task of the agent a, a child of the task for which p acts, and gives t a part of the parent's cost limit. If
// p delegates, the limits of the parent's grant apply. A task that an agent starts in another way, for example on a subagent, needs no
// grant. joinTree writes the parent and the root of the tree, but not t.
func (s *Service) joinTree(tx fleet.Tx, p fleet.Principal, a *fleet.Agent, t *fleet.Task) error {
	parent, err := tx.Task(p.TaskID)
	if err != nil {
		return err
	}
	if parent == nil || !parent.Running() || !parent.StopRequestedAt.IsZero() {
		return fleet.Errorf(fleet.ReasonNoRunningTask, "your own task has ended or is being stopped, so it delegates nothing more")
	}
	counter := parent // counts the tasks of the tree: the root or, if that was deleted or has ended, the parent
	if parent.RootID != "" {
		root, err := tx.Task(parent.RootID)
		if err != nil {
			return err
		}
		if root != nil && root.Active() {
			counter = root
		}
	}
	now := s.now()
	d := &counter.Delegation
	d.RecentStarts = slices.DeleteFunc(slices.Clone(d.RecentStarts), func(at time.Time) bool { return now.Sub(at) >= time.Minute })
	t.ParentID, t.RootID, t.Delegation.Depth = parent.ID, parent.Root(), parent.Delegation.Depth+1
	part := remainingCost(parent) / 2
	switch limited := parent.Spending.Reserve != nil && parent.Spending.Reserve.Fixed; {
	case isDelegating(p):
		g := parent.Delegation.Grant
		if err := checkGrantLimits(g, parent, counter, a); err != nil {
			return err
		}
		if part, err = childLimit(g, parent, t); err != nil {
			return err
		}
		t.Delegation.MaxRunning = g.MaxRunning
		d.Total, d.RecentStarts = d.Total+1, append(d.RecentStarts, now)
	case limited && part <= 0: // without a part, the task would have no limit
		return fleet.DelegationRefused("max_cost_usd", parent.Delegation.GivenToChildren.USD(), (remainingCost(parent) + parent.Delegation.GivenToChildren).USD(), "your task has %s left, too little to give a part to another task: do the work yourself", remainingCost(parent))
	}
	state.FundChild(parent, t, part)
	parent.Delegation.Children++
	if t.Delegation.Wake.Awaited() {
		parent.Delegation.AwaitedChildren++
	}
	if counter != parent {
		if err := tx.Update(counter); err != nil {
			return err
		}
	}
	if err := tx.Update(parent); err != nil {
		return err
	}
	return tx.Append(parent.Event(fleet.EventTaskDelegated, now, "delegated the task "+t.Ref()))
}

// checkGrantLimits returns DELEGATION_REFUSED if the grant does not allow the parent another task for the agent. counter is the task that
// counts the tasks of the tree, see joinTree.
func checkGrantLimits(g *fleet.Grant, parent, counter *fleet.Task, a *fleet.Agent) error {
	role := fleet.ProjectRole{Place: a.Place, Project: a.Project, Role: a.Role}
	switch d := counter.Delegation; {
	case !g.Allows(fleet.ActStart):
		return errMayNotDelegate()
	case a.Owner != parent.Owner:
		return fleet.DelegationRefused("owner", 0, 0, "tasks can be delegated only to agents of %q, who owns yours", parent.Owner)
	case a.Pool != "" && (!slices.Contains(g.Pools, a.Pool) || !g.AllowsRole(a.Role)), a.Pool == "" && !g.AllowsProjectRole(role):
		return fleet.DelegationRefused("roles", 0, 0, "your role may not delegate tasks to the role %q of the project %q", a.Role, a.Project)
	case parent.Delegation.Depth >= g.MaxDepth:
		return fleet.DelegationRefused("max_depth", parent.Delegation.Depth, g.MaxDepth, "your task is at depth %d, the lowest at which tasks may be: do the work yourself", parent.Delegation.Depth)
	case parent.Delegation.Children >= g.MaxChildren:
		return fleet.DelegationRefused("max_children", parent.Delegation.Children, g.MaxChildren, "you have delegated %d tasks, as many as you may: do the rest yourself", parent.Delegation.Children)
	case d.Total >= g.MaxTotal:
		return fleet.DelegationRefused("max_total", d.Total, g.MaxTotal, "%d tasks were delegated below the first task, as many as may be: do the rest yourself", d.Total)
	case len(d.RecentStarts) >= g.PerMinute:
		return fleet.DelegationRefused("per_minute", len(d.RecentStarts), g.PerMinute, "%d tasks were delegated in the last minute, as many as may be: wait a minute", len(d.RecentStarts)).After(time.Minute)
	}
	return nil
}

// remainingCost returns how much a task with a limit of cost may still cost. It returns 0 if the task has used up its limit, or has no
// limit.
func remainingCost(t *fleet.Task) fleet.Micros {
	r := t.Spending.Reserve
	if r == nil || !r.Fixed {
		return 0
	}
	return max(0, r.Micros-(t.Used().Micros-r.UsedBefore.Micros))
}

// childLimit returns the maximum cost of the delegated task: the limit that its caller sets, or an equal part of the amount that
// the parent has left. It returns 0 if neither the parent nor its grant limits the cost. The error is DELEGATION_REFUSED if the
// task would leave nothing for the parent.
func childLimit(g *fleet.Grant, parent, t *fleet.Task) (fleet.Micros, error) {
	limited := parent.Spending.Reserve != nil && parent.Spending.Reserve.Fixed
	left, most := remainingCost(parent), remainingCost(parent)+parent.Delegation.GivenToChildren
	if usd := fleet.MicrosOf(g.MaxCostUSD); usd > 0 && (!limited || usd-parent.Delegation.GivenToChildren < left) {
		limited, left, most = true, max(0, usd-parent.Delegation.GivenToChildren), usd
	}
	if !limited {
		return 0, nil
	}
	part := left / fleet.Micros(g.MaxChildren-parent.Delegation.Children+1)
	if usd := t.Options.MaxCostUSD; usd != nil {
		part = fleet.MicrosOf(*usd)
	}
	if part <= 0 || part >= left { // a task that has nothing left for itself is interrupted
		return 0, fleet.DelegationRefused("max_cost_usd", parent.Delegation.GivenToChildren.USD(), most.USD(), "you have %s left for yourself and for tasks that you delegate: give less as max_cost_usd, or do the work yourself", left)
	}
	return part, nil
}
