package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fleet/internal/fleet"
)

// modelCases apply random operations to a store, and compare the store with a model of its expected state.
var modelCases = []testCase{
	{"tasks", func(t *testing.T, s fleet.Store) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			m := newTaskModel(t, s, id("run", run))
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				rapid.SampledFrom([]func(*rapid.T){m.insert, m.update}).Draw(rt, "step")(rt)
			}
			m.check(rt)
		})
	}},

	{"leases", func(t *testing.T, s fleet.Store) {
		run := 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			m := &leaseModel{t: t, s: s, prefix: id("run", run), holders: map[string]holder{}}
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				rapid.SampledFrom([]func(*rapid.T){m.lease, m.lease, m.renew, m.release}).Draw(rt, "step")(rt)
			}
		})
	}},
}

// taskModel is the expected state of the tasks of two agents. It inserts and updates tasks, and compares them with the
// store.
type taskModel struct {
	t      *testing.T
	s      fleet.Store
	prefix string // of the ids, different in each run
	agents []*fleet.Agent
	tasks  []*fleet.Task // in the order in which they were added
}

func newTaskModel(t *testing.T, s fleet.Store, prefix string) *taskModel {
	m := &taskModel{t: t, s: s, prefix: prefix}
	update(t, s, func(tx fleet.Tx) error {
		m.agents = nil
		for i := range 2 {
			a := newAgent(id(prefix, i), id(prefix, i), "alice")
			require.NoError(t, tx.Insert(a))
			m.agents = append(m.agents, a)
		}
		return nil
	})
	return m
}

func (m *taskModel) runningTask(a *fleet.Agent) *fleet.Task {
	for _, t := range m.tasks {
		if t.AgentUID == a.UID && t.Running() {
			return t
		}
	}
	return nil
}

var anyStatus = rapid.SampledFrom([]fleet.TaskStatus{
	fleet.TaskPending, fleet.TaskPending, fleet.TaskRunning, fleet.TaskRunning, fleet.TaskCompleted, fleet.TaskFailed, fleet.TaskStopped,
})

func (m *taskModel) insert(rt *rapid.T) {
	a := rapid.SampledFrom(m.agents).Draw(rt, "agent")
	task := newTask(id(m.prefix+"-task", len(m.tasks)), a)
	task.Status = anyStatus.Draw(rt, "status")
	task.CreatedAt = noon.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "created")) * time.Second)
	err := m.s.Update(m.t.Context(), func(tx fleet.Tx) error { return tx.Insert(task) })
	if task.Running() && m.runningTask(a) != nil {
		requireReason(rt, err, fleet.ReasonAgentBusy, a.Name)
		return
	}
	require.NoError(rt, err)
	m.tasks = append(m.tasks, task)
}

func (m *taskModel) update(rt *rapid.T) {
	if len(m.tasks) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.tasks)-1).Draw(rt, "task")
	before := m.tasks[i]
	after := *before
	after.Status = anyStatus.Draw(rt, "status")
	after.Summary = rapid.String().Draw(rt, "summary")
	commit := rapid.Bool().Draw(rt, "commit")
	err := m.s.Update(m.t.Context(), func(tx fleet.Tx) error {
		if err := tx.Update(&after); err != nil {
			return err
		}
		if !commit {
			return errTest
		}
		return nil
	})
	switch {
	case before.Status.Ended() && commit:
		requireInternal(rt, err)
	case before.Status.Ended():
		require.Error(rt, err)
	case after.Running() && slices.ContainsFunc(m.tasks, func(t *fleet.Task) bool { return t != before && t.AgentUID == after.AgentUID && t.Running() }):
		if commit {
			requireReason(rt, err, fleet.ReasonAgentBusy, after.AgentName)
		} else {
			require.Error(rt, err) // Postgres finds the second running task only at the commit
		}
	case !commit:
		require.ErrorIs(rt, err, errTest)
	default:
		require.NoError(rt, err)
		require.Equal(rt, before.Revision+1, after.Revision)
		m.tasks[i] = &after
	}
}

func (m *taskModel) check(rt *rapid.T) {
	view(rt, m.s, func(tx fleet.ReadTx) error {
		for _, a := range m.agents {
			var want []*fleet.Task
			for _, t := range m.tasks {
				if t.AgentUID == a.UID {
					want = append(want, t)
				}
			}
			slices.Reverse(want)
			slices.SortStableFunc(want, func(a, b *fleet.Task) int { return b.CreatedAt.Compare(a.CreatedAt) })
			tasks, total, err := tx.Tasks(a.UID, 1000, 0)
			require.NoError(rt, err)
			require.Equal(rt, len(want), total)
			require.Equal(rt, want, tasks)
			running, err := tx.RunningTask(a.UID)
			require.NoError(rt, err)
			require.Equal(rt, m.runningTask(a), running)
			views, err := tx.AgentViews(fleet.AgentViewFilter{UIDs: []string{a.UID}})
			require.NoError(rt, err)
			require.Equal(rt, running, views[0].Task)
		}
		return nil
	})
}

// leaseModel is the expected holder of each lease. It takes, renews and releases leases, and checks the results.
type leaseModel struct {
	t       *testing.T
	s       fleet.Store
	prefix  string // of the keys and owners, different in each run
	holders map[string]holder
	newest  int64 // the highest epoch that a lease of this model has had
}

type holder struct {
	owner   string
	expired bool
	epoch   int64
}

func (m *leaseModel) drawKeyAndOwner(rt *rapid.T) (key, owner string) {
	return m.prefix + rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"), m.prefix + rapid.SampledFrom([]string{"one", "two", "three"}).Draw(rt, "owner")
}

func (m *leaseModel) lease(rt *rapid.T) {
	key, owner := m.drawKeyAndOwner(rt)
	ttl := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "ttl")
	before, ok := m.holders[key]
	got, err := m.s.AcquireLease(m.t.Context(), key, owner, ttl)
	require.NoError(rt, err)
	switch {
	case ok && before.owner == owner:
		require.Equal(rt, before.epoch, got)
	case ok && !before.expired:
		require.Zero(rt, got)
		return
	default:
		require.Greater(rt, got, m.newest)
		m.newest = got
	}
	m.holders[key] = holder{owner, ttl == 0, got}
}

func (m *leaseModel) renew(rt *rapid.T) {
	_, owner := m.drawKeyAndOwner(rt)
	want := map[string]int64{}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(m.holders)) {
		if rapid.Bool().Draw(rt, "renews "+key) {
			keys = append(keys, key)
			if m.holders[key].owner == owner {
				want[key] = m.holders[key].epoch
			}
		}
	}
	got, err := m.s.RenewLeases(m.t.Context(), owner, time.Hour, keys)
	require.NoError(rt, err)
	require.Equal(rt, want, got)
	for key := range want {
		m.holders[key] = holder{owner, false, want[key]}
	}
}

func (m *leaseModel) release(rt *rapid.T) {
	key, owner := m.drawKeyAndOwner(rt)
	require.NoError(rt, m.s.ReleaseLease(m.t.Context(), key, owner))
	if m.holders[key].owner == owner {
		delete(m.holders, key)
	}
}
