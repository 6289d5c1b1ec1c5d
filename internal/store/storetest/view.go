package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var viewCases = []testCase{
	{"live agents, or agents by uid, come with their running tasks", func(t *testing.T, s fleet.Store) {
		idle, busy, other, done := newAgent("u1", "a", "alice"), newAgent("u2", "b", "alice"), newAgent("u3", "c", "bob"), newAgent("u4", "d", "bob")
		deleted := newAgent("u5", "e", "bob")
		deleted.DeletedAt = noon
		running, others, ended := newTask("t2", busy), newTask("t3", other), newTask("t4", done)
		ended.Status = fleet.TaskCompleted
		running.Description = strings.Repeat("long ", 10_000)
		insertRows(t, s, idle, busy, other, done, deleted, running, others, ended)
		want := []*fleet.AgentView{{Agent: *idle}, {Agent: *busy, Task: running}, {Agent: *other, Task: others}, {Agent: *done}}
		require.ElementsMatch(t, want, read(t, s, liveViews))
		require.ElementsMatch(t, want, agentViews(t, s, "u1", "u2", "u3", "u4", "nobody", "u1", "", `"]`, "%"))
		require.ElementsMatch(t, want[1:2], agentViews(t, s, "u2"))
		require.Equal(t, []*fleet.AgentView{{Agent: *deleted}}, agentViews(t, s, "u5"))
		require.Empty(t, agentViews(t, s))
		require.Empty(t, agentViews(t, s, "nobody"))
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
