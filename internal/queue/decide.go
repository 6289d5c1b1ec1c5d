// Package queue decides which pending tasks start, and says why the others wait.
//
// It is pure: the caller gives it a state of the fleet, and carries the decision out. So the same code starts tasks and explains
// to people why they wait.
package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// State is what a decision depends on.
type State struct {
	Tasks []*fleet.QueuedTask // the tasks of the queue that have not ended, in the order in which they were queued
	Now   time.Time
	Texts bool         // set Wait.Text, which takes time
	Pause *fleet.Pause // nil if the fleet is not paused

	Agent      func(uid string) *fleet.AgentView              // nil if the agent is deleted
	Status     func(taskID string) (fleet.TaskStatus, string) // of a dependency, with a name for people; "" if it was deleted
	Down       func(a *fleet.Agent) error                     // why the agent's place cannot be used; nil if it can
	Unconfined func(q *fleet.QueuedTask, a *fleet.Agent) error
	Room       func(owner string) (free int, limited bool) // how many more tasks of the owner may run
}

// Decision says what becomes of the pending tasks.
type Decision struct {
	Order []*fleet.QueuedTask     // the pending tasks, the next one first
	Start []*fleet.QueuedTask     // those that start now
	Waits map[string][]fleet.Wait // why the others wait, by id; what blocks them now comes first
	End   map[string]string       // why tasks can never start, by id
	Next  time.Time               // when the decision may change by itself; zero if it does not
}

// Decide decides about the pending tasks of the state.
func Decide(s State) Decision {
	d := &decider{
		State: s, Decision: Decision{Order: order(s.Tasks, s.Now), Waits: map[string][]fleet.Wait{}, End: map[string]string{}},
		taken: map[string]*fleet.QueuedTask{}, keys: map[string]*fleet.QueuedTask{}, started: map[string]int{}, ahead: map[string]int{},
	}
	for _, q := range s.Tasks {
		if q.Status == fleet.TaskRunning && q.Entry.Exclusive != "" {
			d.keys[q.Entry.Exclusive] = q
		}
	}
	for _, q := range d.Order {
		d.decide(q)
	}
	return d.Decision
}

// order returns the pending tasks in the order in which they start: by rank, then the principals take turns, then by age.
func order(tasks []*fleet.QueuedTask, now time.Time) []*fleet.QueuedTask {
	type place struct {
		q          *fleet.QueuedTask
		rank, turn int
	}
	type group struct {
		rank int
		by   string
	}
	turns := map[group]int{}
	var places []place
	for _, q := range tasks { // oldest first
		if q.Status == fleet.TaskPending {
			g := group{q.Entry.Rank(q.CreatedAt, now), q.Entry.By}
			places = append(places, place{q, g.rank, turns[g]})
			turns[g]++
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.turn, b.turn)) })
	out := make([]*fleet.QueuedTask, len(places))
	for i, p := range places {
		out[i] = p.q
	}
	return out
}

type decider struct {
	State
	Decision
	taken   map[string]*fleet.QueuedTask // what starts now, by agent
	keys    map[string]*fleet.QueuedTask // what runs or starts now, by exclusive key
	started map[string]int               // how many tasks start now, by owner
	ahead   map[string]int               // how many tasks wait only for their agent, by agent
}

func (d *decider) decide(q *fleet.QueuedTask) {
	a := d.Agent(q.AgentUID)
	switch {
	case !q.Entry.Expires.IsZero() && !q.Entry.Expires.After(d.Now):
		d.End[q.ID] = "it expired before it could start"
		return
	case a == nil:
		d.End[q.ID] = "its agent was deleted"
		return
	}
	d.sooner(q.Entry.Expires)
	own := d.ownWaits(q)
	waits := append(own, d.agentWaits(q, a)...)
	if len(waits) == 0 {
		d.Start = append(d.Start, q)
		d.taken[q.AgentUID] = q
		d.started[q.Owner]++
		if q.Entry.Exclusive != "" {
			d.keys[q.Entry.Exclusive] = q
		}
		return
	}
	d.Waits[q.ID] = waits
	if len(own) == 0 {
		d.ahead[q.AgentUID]++
	}
}

// ownWaits returns the reasons that do not depend on the agent.
func (d *decider) ownWaits(q *fleet.QueuedTask) (waits []fleet.Wait) {
	e := &q.Entry
	if d.Pause != nil {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitHeld, Subject: d.Pause.By, Text: d.Pause.String()})
	}
	if e.HeldBy != "" {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitHeld, Subject: e.HeldBy, Text: d.text("held by %s", e.HeldBy)})
	}
	if e.NotBefore.After(d.Now) {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitNotBefore, Text: d.text("it does not start before %s", e.NotBefore.UTC().Format("2006-01-02 15:04:05 MST")), Until: e.NotBefore})
		d.sooner(e.NotBefore)
	}
	for _, dep := range e.After {
		switch status, name := d.Status(dep.TaskID); {
		case status == "":
			waits = append(waits, fleet.Wait{Reason: fleet.WaitDependencyFailed, Subject: dep.TaskID, Text: "the task that it depends on was deleted"})
		case !status.Ended():
			waits = append(waits, fleet.Wait{Reason: fleet.WaitDependency, Subject: dep.TaskID, Text: d.text("it starts after %s, which is %s", name, status)})
		case status != fleet.TaskCompleted && !dep.Ended:
			waits = append(waits, fleet.Wait{Reason: fleet.WaitDependencyFailed, Subject: dep.TaskID, Text: d.text("it starts only if %s completes, which %s", name, was(status))})
		}
	}
	if other := d.keys[e.Exclusive]; e.Exclusive != "" && other != nil {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitExclusive, Subject: e.Exclusive, Text: d.exclusiveText(q, other)})
	}
	return waits
}

// exclusiveText says which task runs with the key of another one. It names only tasks of the same owner.
func (d *decider) exclusiveText(q, other *fleet.QueuedTask) string {
	if other.Owner != q.Owner {
		return d.text("another task runs with the key %q", q.Entry.Exclusive)
	}
	return d.text("the task %s of agent %q runs with the key %q", other.ID, other.AgentName, q.Entry.Exclusive)
}

// agentWaits returns the reasons that depend on the agent and its owner.
func (d *decider) agentWaits(q *fleet.QueuedTask, a *fleet.AgentView) (waits []fleet.Wait) {
	switch a.Status() {
	case fleet.StatusBusy:
		waits = append(waits, fleet.Wait{Reason: fleet.WaitAgentBusy, Subject: a.Task.ID, Text: d.text("agent %q works on %s (%s)", a.Name, a.Task.ID, a.Task.Title())})
	case fleet.StatusOffline:
		text := d.text("agent %q is offline, its workspace is %s", a.Name, a.State)
		if a.StateReason != "" {
			text += d.text(" (%s)", a.StateReason)
		}
		waits = append(waits, fleet.Wait{Reason: fleet.WaitAgentOffline, Subject: a.Name, Text: text})
	case fleet.StatusIdle:
		if next := d.taken[q.AgentUID]; next != nil {
			waits = append(waits, fleet.Wait{Reason: fleet.WaitAgentBusy, Subject: next.ID, Text: d.text("agent %q starts %s (%s)", a.Name, next.ID, next.Title())})
		}
	}
	if err := d.Down(&a.Agent); err != nil {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitPlaceDown, Subject: a.Place, Text: err.Error()})
	}
	if err := d.Unconfined(q, &a.Agent); err != nil {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitUnconfined, Subject: a.Name, Text: err.Error()})
	}
	if free, limited := d.Room(q.Owner); limited && d.started[q.Owner] >= free {
		waits = append(waits, fleet.Wait{Reason: fleet.WaitPrincipalLimit, Subject: q.Owner, Text: d.text("%s has as many running tasks as the limit allows", q.Owner)})
	}
	if n := d.ahead[q.AgentUID]; n > 0 && len(waits) > 0 { // a task that something else holds up is overtaken
		text := "1 task of the agent comes first"
		if n > 1 {
			text = d.text("%d tasks of the agent come first", n)
		}
		waits = append(waits, fleet.Wait{Reason: fleet.WaitBehind, Subject: a.Name, Text: text})
	}
	return waits
}

// text returns the text of a reason, if texts are wanted.
func (d *decider) text(format string, args ...any) string {
	if !d.Texts {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// sooner notes that the decision may change at the time.
func (d *decider) sooner(at time.Time) {
	if at.After(d.Now) && (d.Next.IsZero() || at.Before(d.Next)) {
		d.Next = at
	}
}

// was says how a task has ended, in a sentence.
func was(s fleet.TaskStatus) string {
	if s == fleet.TaskStopped {
		return "was stopped"
	}
	return "has " + string(s)
}
