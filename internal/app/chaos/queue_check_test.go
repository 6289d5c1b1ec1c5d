package chaos

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// maxFreeTime is how long an agent may be free while a task could start.
const maxFreeTime = time.Second

// queuedOutcome is what the event log contains about a task.
type queuedOutcome struct {
	*queuedTask
	createdAt, beganAt, readyAt time.Time // readyAt is when it existed and all of its dependencies had ended
	// startsAtReady is the number of tasks that had begun when it became ready, and startsAtBegin when it began, with itself.
	startsAtReady, startsAtBegin int
	ended                        bool
	openDependencies             int // the number of dependencies that have not ended
	dependants                   []*queuedOutcome
}

// score orders tasks: a task with a lower score starts first. The order of two tasks is free if their scores differ by no more
// than one step of age.
func (o *queuedOutcome) score() time.Duration {
	return time.Duration(o.createdAt.UnixNano()) - time.Duration(o.priority)*ageStep
}

// check compares the event log with the queued tasks. It also checks the limit of the pool, the order of the queue, and for how
// long agents were free while a task could start.
func (run *queueRun) check(t *testing.T, f *fleetUnderLoad, faults *faultLog) {
	tasks := map[string]*queuedOutcome{}
	for id, q := range run.tasks {
		tasks[id] = &queuedOutcome{queuedTask: q, openDependencies: len(q.dependsOn)}
	}
	for _, o := range tasks {
		for _, id := range o.dependsOn {
			tasks[id].dependants = append(tasks[id].dependants, o)
		}
	}
	tracker, mostAgents := run.replay(t, tasks)
	for id, o := range tasks {
		require.True(t, o.ended, "the task %s has not ended", id)
		require.Equal(t, 1, f.place.RunCount(id), "the task %s must run once", id)
	}
	require.LessOrEqual(t, mostAgents, queueAgents, "agents at the same time")
	calm, begun := run.beginsInCalm(tasks)
	pairs := run.checkOrder(t, tasks)
	t.Logf("%s: %.0f tasks a second began in %s without faults, and no agent was free for longer than %s while a task could start (p99 of %d: %s), and none missed more than %d starts; %d pairs of tasks kept the order, %d tasks waited for longer than the bound, the longest wait was %s",
		f.name, float64(begun)/calm.Seconds(), calm.Round(time.Second), slices.Max(append(tracker.waits, 0)).Round(time.Millisecond), len(tracker.waits), percentile(tracker.waits, 99).Round(time.Millisecond), tracker.mostMissed,
		pairs, countOverdue(tasks), longestWait(tasks).Round(time.Second))
	if os.Getenv("CHAOS") != "" {
		require.NotZero(t, pairs, "nothing was compared")
		require.NotEmpty(t, tracker.waits, "nothing was measured")
	}
	const tooLong = "an agent must not be free for so long while a task could start: %s, after the faults %s"
	if os.Getenv("CHAOS") != "" {
		require.LessOrEqual(t, slices.Max(append(tracker.waits, 0)), maxFreeTime, tooLong, tracker.worst, faults.describeRecent(tracker.worstAt, 3*roundOfFaults))
		return
	}
	// Other tests may slow this one down, so starts are counted instead of seconds. Each pass of the dispatcher starts at most one task on each
	// agent. A free agent may miss the rest of the pass in which it became free, a pass in which it is last, and one in which its start was late.
	require.LessOrEqual(t, tracker.mostMissed, 3*queueAgents, tooLong, tracker.worst, faults.describeRecent(tracker.worstAt, 3*roundOfFaults))
	for _, s := range tracker.idle {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Values(tasks)), func(o *queuedOutcome) bool { return s.contains(o.beganAt) }),
			tooLong, tracker.worst, faults.describeRecent(s.begin, 3*roundOfFaults))
	}
}

// replay records the events of the log in the tasks, and checks the order of the events of each task. It returns a tracker that has
// measured all events, and how many agents the pool had at most.
func (run *queueRun) replay(t *testing.T, tasks map[string]*queuedOutcome) (tracker *freeTracker, mostAgents int) {
	t.Helper()
	tracker = &freeTracker{busy: map[string]bool{}, free: map[string]time.Time{}, running: map[string]string{}, ready: map[string]int{}, missed: map[string]int{}, calm: run.calm}
	existing := map[string]bool{} // agents of the pool
	assigned := 0
	for _, e := range run.events(t) {
		o := tasks[e.TaskID]
		switch e.Type {
		case fleet.EventAgentCreated:
			existing[e.AgentUID] = true
			mostAgents = max(mostAgents, len(existing))
		case fleet.EventAgentDeleted:
			delete(existing, e.AgentUID)
			tracker.agentGone(e.AgentUID, e.Time)
		case fleet.EventAgentChanged:
			if e.Status == string(fleet.StateRunning) && !strings.HasPrefix(e.Text, "deleted because") {
				tracker.agentFree(e.AgentUID, e.Time)
			} else if e.Status != "" {
				tracker.agentGone(e.AgentUID, e.Time)
			}
		case fleet.EventTaskCreated:
			require.NotNil(t, o, "the test has not queued the task %s", e.TaskID)
			o.createdAt = e.Time
			if o.openDependencies == 0 {
				o.readyAt, o.startsAtReady = e.Time, assigned
				tracker.taskReady(o, e.Time)
			}
		case fleet.EventTaskAssigned:
			require.True(t, o.beganAt.IsZero(), "the task %s begins twice", o.id)
			require.Zero(t, o.openDependencies, "the task %s begins before its dependencies end", o.id)
			require.Empty(t, tracker.running[o.exclusive], "two tasks with the key %s run", o.exclusive)
			assigned++
			o.beganAt, o.startsAtBegin = e.Time, assigned
			tracker.taskBegan(o, e.AgentUID, e.Time)
		case fleet.EventTaskEnded:
			require.Equal(t, string(fleet.TaskCompleted), e.Status, e.Text)
			require.False(t, o.ended, "the task %s ends twice", o.id)
			require.False(t, o.beganAt.IsZero(), "the task %s ends before it begins", o.id)
			o.ended = true
			for _, d := range o.dependants {
				if d.openDependencies--; d.openDependencies == 0 && !d.createdAt.IsZero() {
					d.readyAt, d.startsAtReady = e.Time, assigned
					tracker.taskReady(d, e.Time)
				}
			}
			tracker.taskEnded(o, e.AgentUID, e.Time)
		}
	}
	return tracker, mostAgents
}

// beginsInCalm returns for how long nothing disturbed the servers, and how many tasks began in these times.
func (run *queueRun) beginsInCalm(tasks map[string]*queuedOutcome) (calm time.Duration, begun int) {
	for _, s := range run.calm {
		calm += s.end.Sub(s.begin)
		for _, o := range tasks {
			if s.contains(o.beganAt) {
				begun++
			}
		}
	}
	return calm, begun
}

// events returns the events of tasks and agents, in the order of the log.
func (run *queueRun) events(t *testing.T) []fleet.Event {
	t.Helper()
	types := []fleet.EventType{
		fleet.EventAgentCreated, fleet.EventAgentChanged, fleet.EventAgentDeleted, fleet.EventTaskCreated, fleet.EventTaskAssigned, fleet.EventTaskEnded,
	}
	all, err := eventsOf(run.store, types...)
	require.NoError(t, err)
	return all
}

// eventsOf returns all events of the types, in the order of the log.
func eventsOf(store fleet.Store, types ...fleet.EventType) (all []fleet.Event, err error) {
	for seq, n := int64(0), -1; n != len(all); {
		n = len(all)
		err := store.View(context.Background(), func(tx fleet.ReadTx) error {
			all = all[:n]
			part, err := tx.Events(fleet.EventFilter{Types: types}, fleet.EventWindow{After: seq, Limit: 5000})
			all = append(all, part...)
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			seq = all[len(all)-1].Seq
		}
	}
	return all, nil
}

// checkOrder checks each task that began while nothing disturbed the servers: no other task with a lower score could have
// started instead. It returns how many pairs of tasks it has compared.
func (run *queueRun) checkOrder(t *testing.T, tasks map[string]*queuedOutcome) (pairs int) {
	t.Helper()
	for _, first := range tasks {
		if !slices.ContainsFunc(run.calm, func(s span) bool { return s.contains(first.beganAt) }) {
			continue // a server may have been stopped between its decision and the start
		}
		for _, other := range tasks {
			// A decision starts at most one task on each agent. So if more starts than that lie between two moments, there was a new decision
			// between them. An exclusive task may also wait for its key.
			if other.exclusive != "" || first.startsAtBegin-other.startsAtReady <= queueAgents || other.startsAtBegin-first.startsAtBegin <= queueAgents {
				continue
			}
			pairs++
			require.LessOrEqual(t, first.score(), other.score()+ageStep, "the task %s (priority %d, queued %s, ready %s, begun %s) waits while %s (priority %d, queued %s) begins at %s",
				other.id, other.priority, other.createdAt, other.readyAt, other.beganAt, first.id, first.priority, first.createdAt, first.beganAt)
		}
	}
	return pairs
}

// countOverdue returns how many tasks without an exclusive key have waited for longer than the bound of the queue. A task that has
// waited for that long comes before all new tasks.
func countOverdue(tasks map[string]*queuedOutcome) (n int) {
	for _, o := range tasks {
		if o.exclusive == "" && o.beganAt.Sub(o.readyAt) > 2*fleet.MaxPriority*ageStep {
			n++
		}
	}
	return n
}

// longestWait returns the longest time that a task without an exclusive key could start and did not.
func longestWait(tasks map[string]*queuedOutcome) (most time.Duration) {
	for _, o := range tasks {
		if o.exclusive == "" {
			most = max(most, o.beganAt.Sub(o.readyAt))
		}
	}
	return most
}

// percentile returns the duration that p percent of all durations do not exceed, or 0 if there are none.
func percentile(all []time.Duration, p int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[(len(all)-1)*p/100]
}

// freeTracker measures for how long agents are free while tasks could start.
type freeTracker struct {
	calm    []span               // only these times count
	busy    map[string]bool      // agents with a task
	free    map[string]time.Time // since when a task could start while the agent was free, by free agent; zero if no task can start
	running map[string]string    // task by exclusive key
	ready   map[string]int       // tasks that can start once their key is free, by key
	waits   []time.Duration      // for how long agents were free while a task could start
	missed  map[string]int       // how many tasks began on other agents in calm times of the current wait, by free agent
	idle    []span               // the calm times in which an agent was free all the time while a task could start

	mostMissed int // the highest value of missed

	worst   string    // describes the longest wait
	worstAt time.Time // when the calm time of the longest wait began
}

// startable reports whether a task could start.
func (tr *freeTracker) startable() bool {
	for key, n := range tr.ready {
		if n > 0 && (key == "" || tr.running[key] == "") {
			return true
		}
	}
	return false
}

// change calls f, which may change whether a task could start. at is the time of the change. If it changes, the waits of all free
// agents begin or end.
func (tr *freeTracker) change(at time.Time, f func()) {
	before := tr.startable()
	f()
	after := tr.startable()
	for uid, since := range tr.free {
		switch {
		case !before && after:
			tr.free[uid] = at
		case before && !after:
			tr.addWait(uid, since, at)
			tr.free[uid] = time.Time{}
		}
	}
}

// addWait records how long the agent was free in calm times between since and until, with one wait for each calm time.
func (tr *freeTracker) addWait(agent string, since, until time.Time) {
	if since.IsZero() {
		return
	}
	delete(tr.missed, agent)
	for _, s := range tr.calm {
		if since.Before(s.begin) && until.After(s.end) {
			tr.idle = append(tr.idle, s)
		}
		begin, end := since, until
		if s.begin.After(begin) {
			begin = s.begin
		}
		if s.end.Before(end) {
			end = s.end
		}
		if end.After(begin) {
			tr.waits = append(tr.waits, end.Sub(begin))
			if end.Sub(begin) == slices.Max(tr.waits) {
				tr.worst, tr.worstAt = fmt.Sprintf("agent %s from %s to %s, in the calm time from %s to %s", agent, since, until, s.begin, s.end), s.begin
			}
		}
	}
}

func (tr *freeTracker) taskReady(o *queuedOutcome, at time.Time) {
	tr.change(at, func() { tr.ready[o.exclusive]++ })
}

func (tr *freeTracker) taskBegan(o *queuedOutcome, agent string, at time.Time) {
	tr.agentGone(agent, at)
	tr.busy[agent] = true
	if slices.ContainsFunc(tr.calm, func(s span) bool { return s.contains(at) }) {
		for other, since := range tr.free {
			if !since.IsZero() {
				tr.missed[other]++
				tr.mostMissed = max(tr.mostMissed, tr.missed[other])
			}
		}
	}
	tr.change(at, func() {
		tr.ready[o.exclusive]--
		if o.exclusive != "" {
			tr.running[o.exclusive] = o.id
		}
	})
}

func (tr *freeTracker) taskEnded(o *queuedOutcome, agent string, at time.Time) {
	tr.change(at, func() { delete(tr.running, o.exclusive) })
	delete(tr.busy, agent)
	tr.agentFree(agent, at)
}

// agentFree records that the agent can take a task, unless it has one.
func (tr *freeTracker) agentFree(agent string, at time.Time) {
	if _, is := tr.free[agent]; is || tr.busy[agent] {
		return
	}
	tr.free[agent] = time.Time{}
	if tr.startable() {
		tr.free[agent] = at
	}
}

// agentGone records that the agent has a task, or is no longer available.
func (tr *freeTracker) agentGone(agent string, at time.Time) {
	tr.addWait(agent, tr.free[agent], at)
	delete(tr.free, agent)
}
