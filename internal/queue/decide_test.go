package queue

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// anyState draws a fleet with a queue.
func anyState(rt *rapid.T) State {
	agents := map[string]*fleet.AgentView{}
	statuses := map[string]fleet.TaskStatus{}
	down := rapid.Bool().Draw(rt, "down")
	for i := range rapid.IntRange(1, 4).Draw(rt, "agents") {
		uid := "u" + strconv.Itoa(i)
		a := &fleet.AgentView{Agent: fleet.Agent{UID: uid, Name: uid, State: fleet.StateRunning, Desired: fleet.DesiredRunning, Place: rapid.SampledFrom([]string{"local", "coder"}).Draw(rt, "place")}}
		switch rapid.IntRange(0, 4).Draw(rt, "agent") {
		case 0:
			a.Task = &fleet.Task{ID: "busy-" + uid, AgentUID: uid, Status: fleet.TaskRunning}
		case 1:
			a.State = fleet.StateStopped
		}
		agents[uid] = a
	}
	s := State{Now: noon}
	if rapid.IntRange(0, 9).Draw(rt, "pause") == 0 {
		s.Pause = &fleet.Pause{By: "root"}
	}
	for i := range rapid.IntRange(0, 12).Draw(rt, "tasks") {
		id := "t" + strconv.Itoa(i)
		q := &fleet.QueuedTask{Task: fleet.Task{
			ID: id, AgentUID: "u" + strconv.Itoa(rapid.IntRange(0, 4).Draw(rt, "of")), Owner: rapid.SampledFrom([]string{"alice", "bob"}).Draw(rt, "owner"),
			Status: fleet.TaskPending, CreatedAt: noon.Add(-time.Duration(12-i) * 20 * time.Second),
		}}
		q.Entry = fleet.QueueEntry{Priority: rapid.IntRange(-1, 1).Draw(rt, "priority"), By: q.Owner, Exclusive: rapid.SampledFrom([]string{"", "", "k"}).Draw(rt, "key")}
		switch rapid.IntRange(0, 8).Draw(rt, "kind") {
		case 0:
			q.Entry.HeldBy = "alice"
		case 1:
			q.Entry.NotBefore = noon.Add(time.Hour)
		case 2:
			q.Entry.Expires = noon
		case 3:
			dep := "d" + strconv.Itoa(i)
			statuses[dep] = rapid.SampledFrom([]fleet.TaskStatus{"", fleet.TaskPending, fleet.TaskCompleted, fleet.TaskFailed}).Draw(rt, "dependency")
			q.Entry.After = []fleet.Dependency{{TaskID: dep, Ended: rapid.Bool().Draw(rt, "ended")}}
		case 4:
			q.Status = fleet.TaskRunning
		}
		s.Tasks = append(s.Tasks, q)
	}
	room := map[string]int{"alice": rapid.IntRange(0, 3).Draw(rt, "room")}
	s.Agent = func(uid string) *fleet.AgentView { return agents[uid] }
	s.Status = func(id string) (fleet.TaskStatus, string) { return statuses[id], id }
	s.Down = func(a *fleet.Agent) error {
		if down && a.Place == "coder" {
			return errors.New("down")
		}
		return nil
	}
	s.Unconfined = func(*fleet.QueuedTask, *fleet.Agent) error { return nil }
	s.Room = func(owner string) (int, bool) { n, limited := room[owner]; return n, limited }
	return s
}

// slow is Decide in an obvious form: as long as some task can start beside those that have been started, the best of them does.
func slow(s State) (started []string) {
	var running []*fleet.QueuedTask
	for _, q := range s.Tasks {
		if q.Status == fleet.TaskRunning {
			running = append(running, q)
		}
	}
	begun := len(running)
	can := func(q *fleet.QueuedTask) bool {
		a, e := s.Agent(q.AgentUID), q.Entry
		if s.Pause != nil || q.Status != fleet.TaskPending || a == nil || a.Status() != fleet.StatusIdle || s.Down(&a.Agent) != nil || e.HeldBy != "" || e.NotBefore.After(s.Now) || !e.Expires.IsZero() && !e.Expires.After(s.Now) {
			return false
		}
		for _, dep := range e.After {
			if status, _ := s.Status(dep.TaskID); status != fleet.TaskCompleted && (!dep.Ended || !status.Ended()) {
				return false
			}
		}
		owned := 0
		for i, r := range running {
			if r == q || i >= begun && r.AgentUID == q.AgentUID || e.Exclusive != "" && r.Entry.Exclusive == e.Exclusive {
				return false
			}
			if i >= begun && r.Owner == q.Owner {
				owned++
			}
		}
		free, limited := s.Room(q.Owner)
		return !limited || owned < free
	}
	best := order(s.Tasks, s.Now)
	for {
		i := slices.IndexFunc(best, can)
		if i < 0 {
			return started
		}
		running = append(running, best[i])
		started = append(started, best[i].ID)
	}
}

// TestDecide compares the decision with a slow one. A task starts, waits for reasons, or can never start.
func TestDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := anyState(rt)
		d := Decide(s)
		var started []string
		for _, q := range d.Start {
			started = append(started, q.ID)
		}
		require.Equal(rt, slow(s), started)
		for _, q := range d.Order {
			_, ends := d.End[q.ID]
			fates := 0
			for _, is := range []bool{slices.Contains(d.Start, q), len(d.Waits[q.ID]) > 0, ends} {
				if is {
					fates++
				}
			}
			require.Equal(rt, 1, fates, q.ID)
		}
	})
}

// TestOrder checks that age outweighs priority in time, and that principals take turns.
func TestOrder(t *testing.T) {
	t.Parallel()
	task := func(id, by string, priority int, age time.Duration) *fleet.QueuedTask {
		return &fleet.QueuedTask{
			Task:  fleet.Task{ID: id, Status: fleet.TaskPending, CreatedAt: noon.Add(-age)},
			Entry: fleet.QueueEntry{Priority: priority, By: by},
		}
	}
	var ids []string
	for _, q := range order([]*fleet.QueuedTask{
		task("old", "alice", -100, 201*time.Minute), task("a1", "alice", 0, 30*time.Second), task("a2", "alice", 0, 20*time.Second),
		task("a3", "alice", 0, 10*time.Second), task("b1", "bob", 0, 5*time.Second), task("high", "bob", 100, time.Second),
	}, noon) {
		ids = append(ids, q.ID)
	}
	require.Equal(t, []string{"old", "high", "a1", "b1", "a2", "a3"}, ids)
}

// BenchmarkDecide decides about 10,000 tasks of 1,000 agents.
func BenchmarkDecide(b *testing.B) {
	s := State{Now: noon}
	agents := map[string]*fleet.AgentView{}
	for i := range 1000 {
		uid := "u" + strconv.Itoa(i)
		agents[uid] = &fleet.AgentView{Agent: fleet.Agent{UID: uid, Name: uid, State: fleet.StateRunning, Desired: fleet.DesiredRunning}}
		if i%2 == 0 {
			agents[uid].Task = &fleet.Task{ID: "busy", Description: "work"}
		}
	}
	for i := range 10_000 {
		s.Tasks = append(s.Tasks, &fleet.QueuedTask{
			Task:  fleet.Task{ID: "t" + strconv.Itoa(i), AgentUID: "u" + strconv.Itoa(i%1000), Owner: "o" + strconv.Itoa(i%7), Status: fleet.TaskPending, CreatedAt: noon.Add(time.Duration(i-10_000) * time.Second), Description: "work"},
			Entry: fleet.QueueEntry{Priority: i % 5, By: "o" + strconv.Itoa(i%7)},
		})
	}
	s.Agent = func(uid string) *fleet.AgentView { return agents[uid] }
	s.Down, s.Unconfined = func(*fleet.Agent) error { return nil }, func(*fleet.QueuedTask, *fleet.Agent) error { return nil }
	s.Room = func(string) (int, bool) { return 0, false }
	for b.Loop() {
		Decide(s)
	}
}
