package queue

import (
	"cmp"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// agentGroup has the agents that can take the tasks of one target.
type agentGroup struct {
	idle     []*fleet.AgentView // agents that can take a task, the last used first; chooseAgent removes agents that start a task
	creating int                // agents that are not ready yet
	offline  int                // agents that are not ready and will not become ready by themselves
	all      int                // all agents of the group
	demand   int                // tasks that wait only for an agent
	unsuited int                // of these, the tasks whose fan-out all idle agents have worked on
}

// groupKey names a group: the agents of an owner in a pool, or the owner's agents with a role that are in no pool.
type groupKey struct {
	pool, owner string
	role        fleet.ProjectRole
}

func groupKeyOf(q *fleet.QueuedTask) groupKey {
	if t := q.Entry.Target; t.Pool == "" {
		return groupKey{owner: q.Owner, role: t.ProjectRole}
	}
	return groupKey{pool: q.Entry.Target.Pool, owner: q.Owner}
}

// groupAgents fills the groups. An agent that a pool creates counts as being created until it is ready, or until the pool has
// noticed that the creation failed.
func (d *decider) groupAgents() {
	unsettled := map[string]bool{}
	for _, p := range d.Pools {
		for _, uid := range p.CreatingUIDs {
			unsettled[uid] = true
		}
	}
	for _, a := range d.Agents {
		if a.Desired == fleet.DesiredDeleted || a.Toolset != fleet.ToolsetFleet || a.Pool == "" && a.MaxIdle > 0 {
			continue
		}
		key := groupKey{pool: a.Pool, owner: a.Owner}
		if a.Pool == "" {
			key = groupKey{owner: a.Owner, role: fleet.ProjectRole{Place: a.Place, Project: a.Project, Role: a.Role}}
		}
		g := d.group(key)
		g.all++
		switch {
		case a.Status() == fleet.StatusIdle && a.OneTask && d.isBound(a.UID): // it is reserved for its task, which goes on later
		case a.Status() == fleet.StatusIdle:
			g.idle = append(g.idle, a)
		case a.Status() == fleet.StatusBusy: // also if its pool does not know yet that it is ready
		case unsettled[a.UID] || isStarting(a):
			g.creating++
		default:
			g.offline++
		}
	}
	for _, p := range d.Pools {
		g := d.group(groupKey{pool: p.Name, owner: p.Owner})
		for _, uid := range p.CreatingUIDs {
			if a := d.Agent(uid); a == nil || a.Desired == fleet.DesiredDeleted {
				g.creating++
				g.all++
			}
		}
	}
	for _, g := range d.groups {
		slices.SortFunc(g.idle, lastUsedFirst)
	}
}

// lastUsedFirst compares agents for sorting. The agent that has changed last comes first.
func lastUsedFirst(a, b *fleet.AgentView) int {
	return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.UID, b.UID))
}

func (d *decider) group(key groupKey) *agentGroup {
	g := d.groups[key]
	if g == nil {
		g = &agentGroup{}
		d.groups[key] = g
	}
	return g
}

// chooseAgent returns an agent for the task, or the reasons why there is none. waitsOnlyForAgent means that nothing else keeps the task
// from starting, so that it counts as demand for an agent.
func (d *decider) chooseAgent(q *fleet.QueuedTask, waitsOnlyForAgent bool) (*fleet.AgentView, []fleet.Wait) {
	key := groupKeyOf(q)
	g := d.group(key)
	var refusal error
	g.idle = slices.DeleteFunc(g.idle, func(a *fleet.AgentView) bool { return d.assigned[a.UID] != nil })
	for _, a := range g.idle {
		if d.workedOnFanOut(a, q) {
			continue
		}
		if err := d.PlaceError(&a.Agent); err != nil {
			d.recheckAt(d.Now.Add(placeRetry))
			return nil, []fleet.Wait{{Reason: fleet.WaitPlaceDown, Subject: a.Place, Text: err.Error()}}
		}
		if refusal = d.UseError(q, &a.Agent); refusal == nil {
			return a, nil
		}
	}
	if waitsOnlyForAgent {
		g.demand++
		if len(g.idle) > 0 && refusal == nil {
			g.unsuited++
		}
	}
	switch {
	case refusal != nil:
		return nil, []fleet.Wait{d.useWait(q.Entry.Target.String(), refusal)}
	case key.pool != "":
		return nil, []fleet.Wait{d.poolWait(d.pool(key.pool, key.owner), g, waitsOnlyForAgent)}
	}
	return nil, []fleet.Wait{d.roleWait(q, g)}
}

// workedOnFanOut reports whether the agent has worked on another task of the same fan-out. Agents must not see the results of
// such tasks.
func (d *decider) workedOnFanOut(a *fleet.AgentView, q *fleet.QueuedTask) bool {
	return slices.ContainsFunc(q.Entry.FanOut, func(id string) bool { return id != q.ID && d.Dependee(id).AgentUID == a.UID })
}

// hasNoAgent reports whether no agent is free for the task, and none would be created for it. required is the agent that it must
// run on; nil if several agents would do. Most tasks of a long queue have no agent. With NoWaits, decide checks
// nothing else of them.
func (d *decider) hasNoAgent(q *fleet.QueuedTask, required *fleet.AgentView) bool {
	if required != nil {
		return required.Status() != fleet.StatusIdle || d.assigned[required.UID] != nil
	}
	key := groupKeyOf(q)
	g := d.group(key)
	for _, a := range g.idle {
		if d.assigned[a.UID] == nil {
			return false
		}
	}
	if key.pool == "" {
		return true
	}
	return g.demand > g.creating && g.demand-g.creating >= d.mayCreate(d.pool(key.pool, key.owner), g)
}

// roleWait returns why no agent with a role can take the task.
func (d *decider) roleWait(q *fleet.QueuedTask, g *agentGroup) fleet.Wait {
	w := fleet.Wait{Reason: fleet.WaitNoAgent, Subject: q.Entry.Target.String()}
	t, busy := q.Entry.Target, g.all-len(g.idle)-g.creating-g.offline
	switch {
	case g.all == 0:
		w.Text = d.text("%s has no agent with the role %s of the project %s: create one", q.Owner, t.Role, t.Project)
	case busy > 0:
		w.Reason, w.Text = fleet.WaitAgentBusy, d.text("no agent with the role %s of the project %s is idle; %d of %d work", t.Role, t.Project, busy, g.all)
	default:
		w.Reason, w.Text = fleet.WaitAgentOffline, d.text("no agent with the role %s of the project %s is ready; there are %d", t.Role, t.Project, g.all)
	}
	return w
}

// poolWait returns why no agent of the pool can take a task. isDemand means that the task is counted in g.demand.
func (d *decider) poolWait(p *fleet.Pool, g *agentGroup, isDemand bool) fleet.Wait {
	w := fleet.Wait{Reason: fleet.WaitProvisioning, Subject: p.Name}
	n := g.demand // the position of the task among those that wait for an agent
	if !isDemand {
		n++
	}
	switch placeErr := d.PlaceError(&fleet.Agent{Place: p.Place}); {
	case placeErr != nil:
		d.recheckAt(d.Now.Add(placeRetry))
		w.Reason, w.Subject, w.Text = fleet.WaitPlaceDown, p.Place, placeErr.Error()
	case n <= g.creating:
		w.Text = d.text("an agent of the pool %q is being created", p.Name)
	case p.Paused():
		w.Text = d.text("the pool %q creates no agents any more, because %d creations in a row failed, the last one with: %s", p.Name, p.Failures, p.FailureReason)
	case p.RetryAt.After(d.Now):
		w.Text, w.Until = d.text("an agent of the pool %q could not be created: %s; Fleet tries again", p.Name, p.FailureReason), p.RetryAt
	case g.all+max(0, n-g.creating) > p.MaxAgents:
		w.Reason, w.Next, w.Text = fleet.WaitPoolFull, "`update_pool` changes the limit", d.text("none of the agents of the pool %q is free, and it has as many as it may have (%d)", p.Name, g.all)
	case n-g.creating <= d.mayCreate(p, g):
		w.Text = d.text("an agent of the pool %q is being created", p.Name)
	default:
		w.Text = d.text("the pool %q creates at most %d agents at a time", p.Name, p.MaxCreating)
	}
	return w
}

// mayCreate returns how many agents the pool may begin to create now.
func (d *decider) mayCreate(p *fleet.Pool, g *agentGroup) int {
	if p.Paused() || p.RetryAt.After(d.Now) || d.PlaceError(&fleet.Agent{Place: p.Place}) != nil {
		return 0
	}
	return max(0, min(p.MaxAgents-g.all, p.MaxCreating-g.creating))
}

// sizePools decides which agents are created and retired.
func (d *decider) sizePools() {
	for _, p := range d.Pools {
		g := d.group(groupKey{pool: p.Name, owner: p.Owner})
		free, wanted := 0, g.demand
		for _, a := range g.idle {
			if d.assigned[a.UID] == nil {
				free++
			}
		}
		if !p.Draining {
			wanted += p.MinIdle
		}
		missing := max(wanted-free, g.unsuited) - g.creating
		if n := min(missing, d.mayCreate(p, g)); n > 0 {
			d.Create[p] = n
		}
		if missing > 0 {
			d.recheckAt(p.RetryAt)
		}
	}
	var retirable []*fleet.AgentView // agents without a task that are in a pool or have a MaxIdle
	for _, a := range d.Agents {
		if (a.Pool != "" || a.MaxIdle > 0) && a.Desired != fleet.DesiredDeleted && a.Task == nil && d.assigned[a.UID] == nil {
			retirable = append(retirable, a)
		}
	}
	if len(retirable) == 0 {
		return
	}
	slices.SortFunc(retirable, lastUsedFirst)
	idleKept := map[*fleet.Pool]int{}
	for _, a := range retirable {
		if !d.isBound(a.UID) {
			d.retireIfUnneeded(a, idleKept)
		}
	}
}

// retireIfUnneeded decides whether an agent without a task is deleted. idleKept counts the idle agents that each pool keeps so far.
func (d *decider) retireIfUnneeded(a *fleet.AgentView, idleKept map[*fleet.Pool]int) {
	limit, p := a.MaxIdle, d.pool(a.Pool, a.Owner)
	switch {
	case a.Pool != "" && (p == nil || p.Draining):
		if p == nil || d.group(groupKey{pool: a.Pool, owner: a.Owner}).demand == 0 && !a.State.Moving() {
			d.Retire = append(d.Retire, a)
		}
		return
	case p != nil:
		if a.Status() == fleet.StatusIdle && idleKept[p] < p.MinIdle {
			idleKept[p]++
			return
		}
		limit = p.MaxIdle
	}
	if limit <= 0 || a.State.Moving() {
		return
	}
	if at := a.UpdatedAt.Add(limit); at.After(d.Now) {
		d.recheckAt(at)
		return
	}
	d.Retire = append(d.Retire, a)
}
