// Package queue decides which pending tasks start, says why the others wait, and decides which agents are created and
// retired.
//
// It has no side effects: the caller gives it a state of the fleet, and carries out the decision. So the same code starts tasks and
// explains to people why they wait.
package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// State has everything on which a decision depends.
type State struct {
	Tasks   []*fleet.QueuedTask // the tasks of the queue that have not ended, in the order in which they were queued
	Now     time.Time
	AgeStep time.Duration // how long a task waits until it counts as one priority higher; 0: fleet.DefaultAgeStep
	Detail  Detail        // how much the decision says about tasks that wait
	Pause   *fleet.Pause  // nil if the fleet is not paused

	Agents          []*fleet.AgentView // all that are not deleted
	Pools           []*fleet.Pool
	Agent           func(uid string) *fleet.AgentView // nil if the agent is deleted
	Dependee        func(taskID string) fleet.Dependee
	PlaceError      func(a *fleet.Agent) error                      // why the agent's place cannot be used; nil if it can
	UseError        func(q *fleet.QueuedTask, a *fleet.Agent) error // why the task may not use the agent; nil if it may
	TaskRoom        func(owner string) (free int, limited bool)     // how many more tasks of the owner may run; any number if not limited
	ProjectRoom     map[string]int                                  // how many more tasks may run in each project with a limit
	CredentialWaits func(q *fleet.QueuedTask) []fleet.Wait          // why the task may not use the credential of its agent now
	Claims          func(q *fleet.QueuedTask) []fleet.BudgetClaim   // what the task must reserve of each budget
	BudgetFits      func(budget string, needed fleet.Amount) bool   // whether the budget has at least this amount left
}

// Detail is how much a decision says about the tasks that wait. More detail takes more time.
type Detail int

// The levels of detail.
const (
	NoWaits Detail = iota // only which tasks start or end, and which agents are created and retired
	Reasons               // why tasks wait
	Texts                 // why tasks wait, with texts for people
)

// Decision says what happens to the pending tasks.
type Decision struct {
	Order     []*fleet.QueuedTask     // the pending tasks, the next one first
	Start     []Start                 // those that start now
	Waits     map[string][]fleet.Wait // why the others wait, by id; empty with NoWaits
	End       map[string]string       // why tasks can never start, by id
	ChangesAt time.Time               // when the decision may change by itself; zero if it does not

	Create map[*fleet.Pool]int // how many agents to create
	Retire []*fleet.AgentView  // agents to delete, because they have been idle for too long, or because their pool drains or was deleted
}

// Start is a task that starts on an agent.
type Start struct {
	Task  *fleet.QueuedTask
	Agent *fleet.AgentView
}

// Decide decides which pending tasks start or end, why the others wait, and which agents are created and retired.
func Decide(s State) Decision {
	d := &decider{
		State: s, Decision: Decision{Order: order(s.Tasks, s.Now, cmp.Or(s.AgeStep, fleet.DefaultAgeStep)), Waits: map[string][]fleet.Wait{}, End: map[string]string{}, Create: map[*fleet.Pool]int{}},
		assigned: map[string]*fleet.QueuedTask{}, exclusive: map[string]*fleet.QueuedTask{}, startedByOwner: map[string]int{}, startedInProject: map[string]int{}, tasksAhead: map[string]int{},
		pools: map[string]*fleet.Pool{}, groups: map[groupKey]*agentGroup{},
		claimed: map[string]fleet.Amount{}, runningInTree: map[string]int{},
	}
	d.UseError = func(q *fleet.QueuedTask, a *fleet.Agent) error {
		err := s.UseError(q, a)
		d.recheckAt(s.Now.Add(retryAfter(err)))
		return err
	}
	for _, p := range s.Pools {
		d.pools[p.Key()] = p
	}
	if len(d.Order) > 0 || len(d.pools) > 0 { // otherwise nobody needs the agents
		d.groupAgents()
	}
	for _, q := range s.Tasks {
		if q.Status == fleet.TaskRunning {
			d.occupy(q)
		}
	}
	for _, q := range d.Order {
		d.decide(q)
	}
	d.sizePools()
	return d.Decision
}

// order returns the pending tasks in the order in which they start: by rank, then the principals that queued them take turns, then
// by age.
func order(tasks []*fleet.QueuedTask, now time.Time, step time.Duration) []*fleet.QueuedTask {
	type position struct {
		q          *fleet.QueuedTask
		rank, turn int
	}
	type turnKey struct {
		rank int
		by   string
	}
	turns := map[turnKey]int{}
	var positions []position
	for _, q := range tasks { // oldest first
		if q.Status == fleet.TaskPending {
			k := turnKey{q.Entry.Rank(q.CreatedAt, now, step), q.Entry.By}
			if q.Delegation.Waits {
				k.rank = math.MaxInt // it has begun, and gave up its agent only while it waits
			}
			positions = append(positions, position{q, k.rank, turns[k]})
			turns[k]++
		}
	}
	slices.SortStableFunc(positions, func(a, b position) int { return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.turn, b.turn)) })
	out := make([]*fleet.QueuedTask, len(positions))
	for i, p := range positions {
		out[i] = p.q
	}
	return out
}

// decider makes one decision.
type decider struct {
	State
	Decision
	assigned         map[string]*fleet.QueuedTask // the task that starts now, by agent
	exclusive        map[string]*fleet.QueuedTask // the task that runs or starts now, by exclusive key
	startedByOwner   map[string]int               // how many tasks start now, by owner
	startedInProject map[string]int               // how many tasks start now, by project
	tasksAhead       map[string]int               // how many of the tasks that were decided so far wait only for their agent, by agent
	pools            map[string]*fleet.Pool       // by key
	groups           map[groupKey]*agentGroup
	boundAgents      map[string]bool         // see isBound; nil until it is needed
	claimed          map[string]fleet.Amount // the amount that the starting tasks claim, by budget
	runningInTree    map[string]int          // how many tasks run or start now, by root
}

// decide decides about one task. The tasks before it in the order must have been decided.
func (d *decider) decide(q *fleet.QueuedTask) {
	if !q.Entry.Expires.IsZero() && !q.Entry.Expires.After(d.Now) {
		d.End[q.ID] = "it expired before it could start"
		return
	}
	a, required := d.requiredAgent(q)
	switch {
	case required && a == nil:
		d.End[q.ID] = "its agent was deleted"
		return
	case q.Entry.Target.Pool != "" && d.pool(q.Entry.Target.Pool, q.Owner) == nil:
		d.End[q.ID] = "its pool was deleted"
		return
	}
	d.recheckAt(q.Entry.Expires)
	if d.Detail == NoWaits && d.hasNoAgent(q, a) {
		return
	}
	claims, project := d.Claims(q), q.Entry.Target.Project
	if required {
		project = a.Project
	}
	nonAgentWaits := slices.Concat(d.taskWaits(q), d.limitWaits(q.Owner, project), d.credentialWaits(q), d.budgetWaits(claims))
	waits := nonAgentWaits
	if required {
		waits = append(waits, d.agentWaits(q, a)...)
	} else {
		var choiceWaits []fleet.Wait
		a, choiceWaits = d.chooseAgent(q, len(nonAgentWaits) == 0)
		waits = append(waits, choiceWaits...)
	}
	if len(waits) == 0 {
		d.Start = append(d.Start, Start{q, a})
		d.assigned[a.UID] = q
		d.startedByOwner[q.Owner]++
		d.startedInProject[project]++
		for _, c := range claims {
			d.claimed[c.Budget] = d.claimed[c.Budget].Plus(c.Needed)
		}
		d.occupy(q)
		return
	}
	if d.Detail != NoWaits {
		d.Waits[q.ID] = clampSince(q, waits)
	}
	if len(nonAgentWaits) == 0 && required {
		d.tasksAhead[a.UID]++
	}
}

// occupy records what other tasks cannot have while the task runs: its exclusive key and one slot of its tree.
func (d *decider) occupy(q *fleet.QueuedTask) {
	if q.Entry.ExclusiveKey != "" {
		d.exclusive[q.Entry.ExclusiveKey] = q
	}
	if q.RootID != "" {
		d.runningInTree[q.RootID]++
	}
}

// clampSince returns the waits of the task. A wait that began before the task was pending begins when the task became pending.
func clampSince(q *fleet.QueuedTask, waits []fleet.Wait) []fleet.Wait {
	pending := q.CreatedAt
	if n := len(q.Entry.Attempts); n > 0 {
		pending = q.Entry.Attempts[n-1].At
	}
	for i := range waits {
		if w := &waits[i]; !w.Since.IsZero() && w.Since.Before(pending) {
			w.Since = pending
		}
	}
	return waits
}

// requiredAgent returns the agent that the task must run on. required is false if several agents would do. A task of a pool that uses the
// same agent for dependent tasks waits for the agent of its dependency, as long as that agent exists.
func (d *decider) requiredAgent(q *fleet.QueuedTask) (a *fleet.AgentView, required bool) {
	if q.AgentUID != "" {
		return d.Agent(q.AgentUID), true
	}
	if p := d.pool(q.Entry.Target.Pool, q.Owner); p != nil && p.Reuse == fleet.ReuseSame {
		for _, dep := range q.Entry.Dependencies {
			if a := d.Agent(d.Dependee(dep.TaskID).AgentUID); a != nil && a.Pool == p.Name && a.Owner == p.Owner && a.Desired != fleet.DesiredDeleted {
				return a, true
			}
		}
	}
	return nil, false
}

// isBound reports whether a pending task must start on the agent with the uid.
func (d *decider) isBound(uid string) bool {
	if d.boundAgents == nil {
		d.boundAgents = map[string]bool{}
		for _, q := range d.Order {
			if a, _ := d.requiredAgent(q); a != nil {
				d.boundAgents[a.UID] = true
			}
		}
	}
	return d.boundAgents[uid]
}

// pool returns the owner's pool with the name; nil if there is none.
func (d *decider) pool(name, owner string) *fleet.Pool { return d.pools[fleet.OwnedKey(name, owner)] }

// taskWaits returns the reasons that come from the task itself, from other tasks, or from a pause of the fleet.
func (d *decider) taskWaits(q *fleet.QueuedTask) (waits []fleet.Wait) {
	e := &q.Entry
	if d.Pause != nil {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitHeld, Subject: d.Pause.By, Since: d.Pause.At, Text: d.Pause.String(), Next: "`resume_fleet` ends the pause, if you are an admin"})
	}
	if e.HeldBy != "" {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitHeld, Subject: e.HeldBy, Since: e.HeldAt, Text: d.text("%s has put it on hold", e.HeldBy), Next: "`release_task` lets it start"})
	}
	if e.NotBefore.After(d.Now) {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitNotBefore, Text: d.text("it does not start before %s", e.NotBefore.UTC().Format("2006-01-02 15:04:05 MST")), Until: e.NotBefore})
		d.recheckAt(e.NotBefore)
	}
	if n := len(e.Attempts); n > 0 && e.RetryAt.After(d.Now) {
		last, reason := e.Attempts[n-1], fleet.WaitRetry
		if last.Code == fleet.CodeUsageWindow {
			reason = fleet.WaitUsageWindow
		}
		waits = append(waits, fleet.Wait{Reason: reason, Subject: string(last.Code), Since: last.At, Text: d.text("attempt %d failed: %s", last.Try+1, last.Reason), Until: e.RetryAt})
		d.recheckAt(e.RetryAt)
	}
	for _, dep := range e.Dependencies {
		other := d.Dependee(dep.TaskID)
		switch status, name := other.Status, other.Name; {
		case status == "":
			waits = append(waits, fleet.Wait{Reason: fleet.WaitDependencyFailed, Subject: dep.TaskID, Text: "the task that it depends on was deleted", Next: nextDependency})
		case !status.Ended():
			waits = append(waits, fleet.Wait{Reason: fleet.WaitDependency, Subject: dep.TaskID, Text: d.text("it starts when %s has %s; that is %s", name, dep.RequiredEnd(), status)})
		case status != fleet.TaskCompleted && !dep.AnyEnd:
			waits = append(waits, fleet.Wait{Reason: fleet.WaitDependencyFailed, Subject: dep.TaskID, Text: d.text("it starts only if %s completes, but that %s", name, status.EndText()), Next: nextDependency})
		}
	}
	if t := q.Delegation; t.Waits && !t.Ready {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitDelegated, Text: d.text("its turn is over, and it waits for %s", delegatedTasksText(t.AwaitedChildren)), Next: "`show_task_tree` shows them"})
	}
	if most, n := q.Delegation.MaxRunning, d.runningInTree[q.RootID]; most > 0 && q.RootID != "" && n >= most && !q.Delegation.Waits {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitTree, Subject: q.RootID, Text: d.text("%d delegated tasks of its tree run, as many as may run at once", n), Next: "`show_task_tree` shows them"})
	}
	if other := d.exclusive[e.ExclusiveKey]; e.ExclusiveKey != "" && other != nil {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitExclusive, Subject: e.ExclusiveKey, Text: d.exclusiveText(q, other)})
	}
	return waits
}

// credentialWaits returns why the credential of the task's agent cannot be used.
func (d *decider) credentialWaits(q *fleet.QueuedTask) []fleet.Wait {
	waits := d.CredentialWaits(q)
	for _, w := range waits {
		d.recheckAt(w.Until)
	}
	return waits
}

// budgetWaits returns a reason for each budget that does not have what the task needs.
func (d *decider) budgetWaits(claims []fleet.BudgetClaim) (waits []fleet.Wait) {
	for _, c := range claims {
		text := c.Text
		if text == "" {
			if d.BudgetFits(c.Budget, d.claimed[c.Budget].Plus(c.Needed)) {
				continue
			}
			text = d.text("tasks that start now take what the budget %q has left", c.Budget)
		}
		waits = append(waits, fleet.Wait{Reason: fleet.WaitBudget, Subject: c.Budget, Text: text, Until: c.Until, Next: c.Next})
		d.recheckAt(c.Until)
	}
	return waits
}

// exclusiveText says that the task other runs with the key of q. It names other only if both have the same owner.
func (d *decider) exclusiveText(q, other *fleet.QueuedTask) string {
	if other.Owner != q.Owner {
		return d.text("only one task with the key %q runs at a time, and somebody else's does", q.Entry.ExclusiveKey)
	}
	return d.text("only one task with the key %q runs at a time, and %s of agent %q does", q.Entry.ExclusiveKey, other.Ref(), other.AgentName)
}

// limitWaits returns the limits of the owner and the project that keep another task from running.
func (d *decider) limitWaits(owner, project string) (waits []fleet.Wait) {
	if free, limited := d.TaskRoom(owner); limited && d.startedByOwner[owner] >= free {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitPrincipalLimit, Subject: owner, Text: d.text("%s has as many running tasks as the limit allows", owner)})
	}
	if free, limited := d.ProjectRoom[project]; limited && d.startedInProject[project] >= free {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitPrincipalLimit, Subject: project, Text: d.text("the project %s has as many running tasks of all its users as the limit allows", project)})
	}
	return waits
}

// agentWaits returns the reasons that depend on the agent that the task must run on.
func (d *decider) agentWaits(q *fleet.QueuedTask, a *fleet.AgentView) (waits []fleet.Wait) {
	switch a.Status() {
	case fleet.StatusBusy:
		waits = append(waits, fleet.Wait{Reason: fleet.WaitAgentBusy, Subject: a.Task.ID, Since: a.Task.StartedAt, Text: d.text("agent %q works on %s", a.Name, a.Task.Ref())})
	case fleet.StatusOffline:
		w := fleet.Wait{Reason: fleet.WaitAgentOffline, Subject: a.Name, Text: d.text("agent %q is offline, because its workspace is %s", a.Name, a.State), Next: "`start_agent` starts it"}
		if isStarting(a) {
			w.Reason, w.Next, w.Text = fleet.WaitProvisioning, "", d.text("agent %q starts, its workspace is %s", a.Name, a.State)
		}
		if a.StateReason != "" {
			w.Text += d.text(" (%s)", a.StateReason)
		}
		waits = append(waits, w)
	case fleet.StatusIdle:
		if next := d.assigned[a.UID]; next != nil {
			waits = append(waits, fleet.Wait{Reason: fleet.WaitAgentBusy, Subject: next.ID, Text: d.text("agent %q starts %s", a.Name, next.Ref())})
		}
	}
	if err := d.PlaceError(&a.Agent); err != nil {
		d.recheckAt(d.Now.Add(placeRetry))
		waits = append(waits, fleet.Wait{Reason: fleet.WaitPlaceDown, Subject: a.Place, Text: err.Error()})
	}
	if err := d.UseError(q, &a.Agent); err != nil {
		waits = append(waits, d.useWait(a.Name, err))
	}
	if n := d.tasksAhead[a.UID]; n > 0 && len(waits) > 0 { // only tasks that wait for nothing else are ahead
		text := "1 other queued task of the agent starts before it"
		if n > 1 {
			text = d.text("%d other queued tasks of the agent start before it", n)
		}
		waits = append(waits, fleet.Wait{Reason: fleet.WaitBehind, Subject: a.Name, Text: text})
	}
	return waits
}

// useWait returns the reason for an error of UseError about the subject.
func (d *decider) useWait(subject string, err error) fleet.Wait {
	w := fleet.Wait{Reason: fleet.WaitUnconfined, Subject: subject, Text: err.Error()}
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Reason == fleet.ReasonBudgetExceeded {
		w.Reason, w.Subject = fleet.WaitBudget, e.Metadata["budget"]
		if wait := retryAfter(err); wait > 0 {
			w.Until = d.Now.Add(wait)
		}
	}
	return w
}

// retryAfter returns how long it takes until the error may be gone; 0 if that is not known.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*fleet.Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// isStarting reports whether the agent will become ready without a further request.
func isStarting(a *fleet.AgentView) bool {
	return a.Desired == fleet.DesiredRunning && (a.State.Moving() || a.RestartsRequested != a.RestartsDone)
}

// nextDependency says what to do about a task whose dependency has failed.
const nextDependency = "`update_queued_task` lets it depend on other tasks or on none, and `stop_task` stops it"

// placeRetry is how long it takes until a decision must be made again because a place cannot be used. No event reports when it
// can be used.
const placeRetry = 2 * time.Second

func delegatedTasksText(n int) string {
	if n == 1 {
		return "a delegated task"
	}
	return fmt.Sprintf("%d delegated tasks", n)
}

// text returns the text of a reason, or "" if the decision needs no texts.
func (d *decider) text(format string, args ...any) string {
	if d.Detail != Texts {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// recheckAt records that the decision may change at the time, if that is in the future.
func (d *decider) recheckAt(at time.Time) {
	if at.After(d.Now) && (d.ChangesAt.IsZero() || at.Before(d.ChangesAt)) {
		d.ChangesAt = at
	}
}
