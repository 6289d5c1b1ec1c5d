package reconcile_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// explanation computes the reasons why tasks wait, in a slow and obvious way. It takes the tasks in their order, and records
// the agents, keys and limits that the earlier tasks use up.
type explanation struct {
	*waitsWorld

	now     time.Time
	starts  map[string]string // task that starts now, by agent
	keys    map[string]bool   // ExclusiveKey of the tasks that run or start now
	running map[string]int    // tasks that run or start now, by owner
	ahead   map[string]int    // tasks that wait only for an agent, by agent
	demand  map[string]int    // tasks that wait only for an agent, by pool
}

// explain returns a line for each pending task, in their order: its name, the reasons and their subjects.
func (w *waitsWorld) explain(now time.Time) (lines []string) {
	x := &explanation{waitsWorld: w, now: now, starts: map[string]string{}, keys: map[string]bool{}, running: map[string]int{}, ahead: map[string]int{}, demand: map[string]int{}}
	for _, m := range w.tasks {
		if isRunning(m) {
			x.keys[m.entry.ExclusiveKey] = true
			x.running[m.owner]++
		}
	}
	for _, m := range x.order() {
		lines = append(lines, strings.Join(append([]string{w.name(m.id)}, x.waits(m)...), ", "))
	}
	return lines
}

// order returns the pending tasks in the order in which they start: the highest priority first, which includes the age. Among
// equal priorities, the principals take turns, and the oldest task of a principal comes first.
func (x *explanation) order() (all []*modelTask) {
	for _, m := range x.tasks {
		if isPending(m) {
			all = append(all, m)
		}
	}
	older := func(a, b *modelTask) int { return cmp.Or(a.created.Compare(b.created), strings.Compare(a.id, b.id)) }
	rank := func(m *modelTask) int { return m.entry.Priority + int(x.now.Sub(m.created)/ageStep) }
	turn := func(m *modelTask) (n int) { // how many tasks of the same principal and rank come before
		for _, o := range all {
			if o.owner == m.owner && rank(o) == rank(m) && older(o, m) < 0 {
				n++
			}
		}
		return n
	}
	turns := map[*modelTask]int{}
	for _, m := range all {
		turns[m] = turn(m)
	}
	slices.SortFunc(all, func(a, b *modelTask) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), cmp.Compare(turns[a], turns[b]), older(a, b))
	})
	return all
}

func reasonLine(reason fleet.WaitReason, subject string) string {
	return fmt.Sprintf("%s %s", reason, subject)
}

// waits returns the reasons why the task waits. A task without a reason starts now, or has expired.
func (x *explanation) waits(m *modelTask) (all []string) {
	e := m.entry
	if !e.Expires.IsZero() && !e.Expires.After(x.now) {
		return nil
	}
	if x.pausedBy != "" {
		all = append(all, reasonLine(fleet.WaitHeld, x.pausedBy))
	}
	if e.HeldBy != "" {
		all = append(all, reasonLine(fleet.WaitHeld, e.HeldBy))
	}
	if e.NotBefore.After(x.now) {
		all = append(all, reasonLine(fleet.WaitNotBefore, ""))
	}
	for _, dep := range e.Dependencies {
		switch other := x.tasks[dep.TaskID]; {
		case other == nil:
			all = append(all, reasonLine(fleet.WaitDependencyFailed, x.name(dep.TaskID)))
		case !other.status.Ended():
			all = append(all, reasonLine(fleet.WaitDependency, x.name(dep.TaskID)))
		case other.status != fleet.TaskCompleted && !dep.AnyEnd:
			all = append(all, reasonLine(fleet.WaitDependencyFailed, x.name(dep.TaskID)))
		}
	}
	if e.ExclusiveKey != "" && x.keys[e.ExclusiveKey] {
		all = append(all, reasonLine(fleet.WaitExclusive, e.ExclusiveKey))
	}
	if x.running[m.owner] >= maxRunningTasks {
		all = append(all, reasonLine(fleet.WaitPrincipalLimit, m.owner))
	}
	agent, why := x.agentFor(m, len(all) == 0)
	all = append(all, why...)
	if len(all) == 0 {
		x.starts[agent.uid] = m.id
		x.keys[e.ExclusiveKey] = true
		x.running[m.owner]++
	}
	return all
}

// agentFor returns an agent that is free for the task, or the reasons why there is none. waitsOnlyForAgent means that nothing else
// keeps the task from starting.
func (x *explanation) agentFor(m *modelTask, waitsOnlyForAgent bool) (*modelAgent, []string) {
	if required := x.requiredAgent(m); required != nil {
		return x.checkRequired(required, waitsOnlyForAgent)
	}
	var all, free []*modelAgent
	creating, busy := 0, 0
	for _, a := range x.agents {
		if a.owner != m.owner || a.pool != m.entry.Target.Pool || a.desired == fleet.DesiredDeleted {
			continue
		}
		all = append(all, a)
		switch {
		case x.isFree(a):
			free = append(free, a)
		case x.isStarting(a):
			creating++
		case a.state == fleet.StateRunning && a.desired == fleet.DesiredRunning:
			busy++
		}
	}
	if len(free) > 0 {
		return slices.MinFunc(free, func(a, b *modelAgent) int { return cmp.Or(b.usedAt.Compare(a.usedAt), strings.Compare(a.uid, b.uid)) }), nil
	}
	target := m.entry.Target
	pool := x.pools[target.Pool]
	switch {
	case pool != nil:
		before := x.demand[pool.Name]
		if waitsOnlyForAgent {
			x.demand[pool.Name]++
		}
		if before < creating+pool.MaxAgents-len(all) {
			return nil, []string{reasonLine(fleet.WaitProvisioning, pool.Name)}
		}
		return nil, []string{reasonLine(fleet.WaitPoolFull, pool.Name)}
	case len(all) == 0:
		return nil, []string{reasonLine(fleet.WaitNoAgent, target.String())}
	case busy > 0:
		return nil, []string{reasonLine(fleet.WaitAgentBusy, target.String())}
	}
	return nil, []string{reasonLine(fleet.WaitAgentOffline, target.String())}
}

// isFree reports whether the agent can take a task now.
func (x *explanation) isFree(a *modelAgent) bool {
	return a.state == fleet.StateRunning && a.desired == fleet.DesiredRunning && !a.startRequested && a.task == "" && x.starts[a.uid] == ""
}

// isStarting reports whether the agent will become ready without a further request.
func (x *explanation) isStarting(a *modelAgent) bool {
	return a.desired == fleet.DesiredRunning && (a.state.Moving() || a.startRequested)
}

// requiredAgent returns the only agent that may do the task: the agent for which the task was queued or, in the pool "same", the
// agent of a task on which it depends. It returns nil if any agent of the task's target may do the task.
func (x *explanation) requiredAgent(m *modelTask) *modelAgent {
	if m.agent != "" {
		return x.agents[m.agent]
	}
	if m.entry.Target.Pool != "same" {
		return nil
	}
	for _, dep := range m.entry.Dependencies {
		if other := x.tasks[dep.TaskID]; other != nil {
			if a := x.agents[other.agent]; a != nil && a.pool == "same" && a.desired != fleet.DesiredDeleted {
				return a
			}
		}
	}
	return nil
}

// checkRequired returns the agent that the task must run on if it is free, or the reasons why it is not. waitsOnlyForAgent is as in
// agentFor.
func (x *explanation) checkRequired(a *modelAgent, waitsOnlyForAgent bool) (*modelAgent, []string) {
	var why []string
	switch {
	case x.isFree(a):
		return a, nil
	case x.isStarting(a):
		why = append(why, reasonLine(fleet.WaitProvisioning, a.name))
	case a.desired != fleet.DesiredRunning || a.state != fleet.StateRunning:
		why = append(why, reasonLine(fleet.WaitAgentOffline, a.name))
	default:
		why = append(why, reasonLine(fleet.WaitAgentBusy, x.name(cmp.Or(a.task, x.starts[a.uid]))))
	}
	if x.ahead[a.uid] > 0 {
		why = append(why, reasonLine(fleet.WaitBehind, a.name))
	}
	if waitsOnlyForAgent {
		x.ahead[a.uid]++
	}
	return nil, why
}
