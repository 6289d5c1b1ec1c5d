package service

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"fleet/internal/fleet"
)

// increase says what a call adds to the holdings of the owner and, if project is set, of the project.
type increase struct {
	agents, tasks, bytes int
	project              string
}

// admit returns LIMIT_REACHED if the increase m by the caller p would exceed a limit of the owner or of the project, and
// FLEET_PAUSED if m has tasks and the fleet is paused. Call it in the transaction that makes the increase. It also counts the call as a
// request about the project, and returns LIMIT_REACHED if there were too many requests.
func admit(ctx context.Context, all fleet.Limits, tx fleet.ReadTx, p fleet.Principal, owner string, m increase) error {
	if err := fleet.CountProjectRequest(ctx, m.project); err != nil {
		return err
	}
	if m.tasks > 0 {
		if pause, err := fleet.ReadPause(tx); err != nil || pause != nil {
			if err == nil {
				err = pause.Refusal()
			}
			return err
		}
	}
	groups, err := limitGroups(all, tx, owner)
	if err != nil {
		return err
	}
	who := "you have"
	if p.Name != owner { // for example, p may run tasks on an agent that the owner has shared
		who = fmt.Sprintf("%q has", owner)
	}
	limitError := func(kind string, used, most int64, what, next string) *fleet.Error {
		return fleet.LimitReached(all.SettingOf(kind, owner, groups), who, used, most, what, next)
	}
	if err := admitOwner(all.For(owner, groups), tx, owner, m, limitError); err != nil {
		return err
	}
	return admitProject(all.Projects[m.project], tx, m)
}

// LastGroups returns the last known groups of the principal if any group has limits, and nil otherwise.
func (s *Service) LastGroups(ctx context.Context, principal string) ([]string, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) ([]string, error) { return limitGroups(s.Limits(), tx, principal) })
}

// limitGroups returns the owner's last known groups if any group has limits, and nil otherwise.
func limitGroups(all fleet.Limits, tx fleet.ReadTx, owner string) ([]string, error) {
	if len(all.Groups) == 0 {
		return nil, nil
	}
	known, err := tx.Identity(fleet.IdentityKey{Principal: owner})
	if err != nil || known == nil {
		return nil, err
	}
	return known.Groups, nil
}

// admitOwner returns an error from limitError if m would exceed a limit of the owner.
func admitOwner(l fleet.Limits, tx fleet.ReadTx, owner string, m increase, limitError func(kind string, used, most int64, what, next string) *fleet.Error) error {
	if l.Agents == 0 && l.RunningTasks == 0 && l.StoredBytes == 0 {
		return nil
	}
	h, err := holdingsFor(l, tx, owner, m)
	if err != nil {
		return err
	}
	switch {
	case m.agents > 0 && l.Agents > 0 && h.AllAgents()+m.agents > l.Agents:
		return limitError("agents", int64(h.AllAgents()), int64(l.Agents), "agents", "{delete_agent} deletes one")
	case m.tasks > 0 && l.RunningTasks > 0 && h.RunningTasks+m.tasks > l.RunningTasks:
		return limitError("running_tasks", int64(h.RunningTasks), int64(l.RunningTasks), "running tasks", "{wait_tasks} waits for one to end").After(fleet.BusyRetryAfter)
	case m.tasks+m.bytes > 0 && l.StoredBytes > 0 && h.StoredBytes+int64(max(m.bytes, 1)) > l.StoredBytes:
		return limitError("stored_bytes", h.StoredBytes, l.StoredBytes, "bytes stored", "{delete_task} deletes a task")
	}
	return nil
}

// holdingsFor returns the owner's holdings. It counts the agents only if m adds agents and they are limited.
func holdingsFor(l fleet.Limits, tx fleet.ReadTx, owner string, m increase) (fleet.Holdings, error) {
	if m.agents > 0 && l.Agents > 0 {
		return tx.Holdings(owner, l, fleet.HoldingsScope{})
	}
	return tx.Holdings(owner, l, fleet.HoldingsScope{WithoutAgents: true, Bytes: m.bytes})
}

// admitProject returns LIMIT_REACHED if m would exceed a limit of its project.
func admitProject(l fleet.ProjectLimits, tx fleet.ReadTx, m increase) error {
	if l.Agents == 0 && l.RunningTasks == 0 && l.StoredBytes == 0 {
		return nil
	}
	h, err := tx.ProjectHoldings(m.project)
	if err != nil {
		return err
	}
	switch {
	case m.agents > 0 && l.Agents > 0 && h.Agents+m.agents > l.Agents:
		return errProjectFull(m.project, "agents", int64(h.Agents), int64(l.Agents), "agents", "wait until somebody deletes one")
	case m.tasks > 0 && l.RunningTasks > 0 && h.RunningTasks+m.tasks > l.RunningTasks:
		return errProjectFull(m.project, "running_tasks", int64(h.RunningTasks), int64(l.RunningTasks), "running tasks", "wait until one ends").After(fleet.BusyRetryAfter)
	case m.tasks+m.bytes > 0 && l.StoredBytes > 0 && h.StoredBytes+int64(max(m.bytes, 1)) > l.StoredBytes:
		return errProjectFull(m.project, "stored_bytes", h.StoredBytes, l.StoredBytes, "bytes stored", "delete tasks of the project").Next("{delete_task} deletes a task")
	}
	return nil
}

// errProjectFull returns LIMIT_REACHED for a project that has reached the limit of the kind. The error does not name the users of
// the project.
func errProjectFull(project, kind string, used, most int64, what, next string) *fleet.Error {
	key := fleet.Limit{Kind: kind, Project: project}.Setting()
	return fleet.Errorf(fleet.ReasonLimitReached, "the project %s has %d %s of all its users, and its limit is %d: %s, or ask the operator to raise %s", project, used, what, most, next, key).
		AtLimit(key, used, most).After(fleet.LimitRetryAfter)
}

// LimitUse is a limit and how much of it is used.
type LimitUse struct {
	fleet.Limit
	Used int64 // -1 for a limit without a count, such as requests a second
}

// limitUses returns the limits of the principal and how much of them is used. For an admin, it adds the limits of projects.
func limitUses(all fleet.Limits, tx fleet.ReadTx, p fleet.Principal) ([]LimitUse, error) {
	own, err := principalUse(all, tx, p.Name)
	uses := own.Limits
	if err != nil || !p.Admin() {
		return uses, err
	}
	for _, name := range slices.Sorted(maps.Keys(all.Projects)) {
		h, err := tx.ProjectHoldings(name)
		if err != nil {
			return nil, err
		}
		for _, limit := range all.ListForProject(name) {
			uses = append(uses, useOf(limit, h.Agents, h.RunningTasks, h.StoredBytes))
		}
	}
	return uses, nil
}

// useOf returns the limit and the count that applies to its kind.
func useOf(limit fleet.Limit, agents, runningTasks int, storedBytes int64) LimitUse {
	use := LimitUse{limit, -1}
	switch limit.Kind {
	case "agents":
		use.Used = int64(agents)
	case "running_tasks":
		use.Used = int64(runningTasks)
	case "stored_bytes":
		use.Used = storedBytes
	}
	return use
}
