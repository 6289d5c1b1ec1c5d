package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var viewCases = []testCase{
	{"an agent comes with its active task", func(t *testing.T, s fleet.Store) {
		idle, busy, other, done := newAgent("u1", "a", "alice"), newAgent("u2", "b", "alice"), newAgent("u3", "c", "bob"), newAgent("u4", "d", "bob")
		running, others, ended := newTask("t2", busy), newTask("t3", other), newTask("t4", done)
		ended.Status = fleet.TaskCompleted
		running.Description = strings.Repeat("long ", 10_000)
		insertRows(t, s, idle, busy, other, done, running, others, ended)
		want := []*fleet.AgentView{{Agent: *idle}, {Agent: *busy, Task: running}, {Agent: *other, Task: others}, {Agent: *done}}
		require.ElementsMatch(t, want, read(t, s, liveViews))
		require.ElementsMatch(t, want, agentViews(t, s, "u1", "u2", "u3", "u4"))
		require.ElementsMatch(t, want[1:2], agentViews(t, s, "u2"))
	}},

	{"live views leave out deleted agents, but views by uid have them", func(t *testing.T, s fleet.Store) {
		gone, here := newAgent("u1", "a", "alice"), newAgent("u2", "b", "alice")
		gone.DeletedAt = noon
		insertRows(t, s, gone, here)
		require.Equal(t, []*fleet.AgentView{{Agent: *here}}, read(t, s, liveViews))
		require.ElementsMatch(t, []*fleet.AgentView{{Agent: *gone}, {Agent: *here}}, agentViews(t, s, "u1", "u2"))
	}},

	{"views leave out unknown agents, and have each agent once", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		require.Empty(t, agentViews(t, s))
		require.Empty(t, agentViews(t, s, "nobody", "", `"]`, "%"))
		require.Len(t, agentViews(t, s, a.UID, "nobody", a.UID), 1)
	}},

	{"views of many agents", func(t *testing.T, s fleet.Store) {
		const n = 300
		addAgents(t, s, n)
		live := read(t, s, liveViews)
		require.Len(t, live, n)
		busy := 0
		all := make([]string, 0, 10*n)
		for _, v := range live {
			all = append(all, v.UID)
			if v.Task != nil {
				require.Equal(t, v.UID, v.Task.AgentUID)
				busy++
			}
		}
		require.Equal(t, n/2, busy)
		for i := n; i < cap(all); i++ {
			all = append(all, id("nobody", i))
		}
		named := agentViews(t, s, all...)
		byUID := func(a, b *fleet.AgentView) int { return strings.Compare(a.UID, b.UID) }
		slices.SortFunc(live, byUID)
		slices.SortFunc(named, byUID)
		require.Equal(t, live, named)
	}},
}

func agentViews(t tb, s fleet.Store, uids ...string) []*fleet.AgentView {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) ([]*fleet.AgentView, error) {
		return tx.AgentViews(fleet.AgentViewFilter{UIDs: uids})
	})
}

// addAgents adds n agents, every second one with a running task.
func addAgents(t tb, s fleet.Store, n int) {
	t.Helper()
	update(t, s, func(tx fleet.Tx) error {
		for i := range n {
			a := newAgent(id("u", i), id("agent", i), "alice")
			if err := tx.Insert(a); err != nil {
				return err
			}
			if i%2 == 0 {
				continue
			}
			if err := tx.Insert(newTask(id("t", i), a)); err != nil {
				return err
			}
		}
		return nil
	})
}

func liveViews(tx fleet.ReadTx) ([]*fleet.AgentView, error) {
	return tx.AgentViews(fleet.AgentViewFilter{Live: true})
}
