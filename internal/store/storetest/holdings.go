package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var holdingCases = []testCase{
	{"an unknown owner has nothing", func(t *testing.T, s fleet.Store) {
		require.Equal(t, fleet.Holdings{Agents: map[fleet.Toolset]int{}}, holdings(t, s, "nobody"))
	}},

	{"agents that exist, by toolset", func(t *testing.T, s fleet.Store) {
		for i, toolset := range []fleet.Toolset{fleet.ToolsetFleet, fleet.ToolsetFleet, fleet.ToolsetLifecycle} {
			a := newAgent(id("u", i), id("a", i), "alice")
			a.Toolset = toolset
			insertRows(t, s, a)
		}
		gone := newAgent("gone", "gone", "alice")
		gone.State, gone.DeletedAt = fleet.StateDeleted, noon
		insertRows(t, s, gone)
		insertRows(t, s, newAgent("bobs", "bobs", "bob"))
		h := holdings(t, s, "alice")
		require.Equal(t, map[fleet.Toolset]int{fleet.ToolsetFleet: 2, fleet.ToolsetLifecycle: 1}, h.Agents)
		require.Equal(t, 3, h.AllAgents())
		agentsIn := func(toolset fleet.Toolset) int {
			return read(t, s, func(tx fleet.ReadTx) (int, error) {
				h, err := tx.Holdings("alice", fleet.Limits{Agents: 1}, fleet.HoldingsScope{Toolset: &toolset})
				return h.AllAgents(), err
			})
		}
		require.Equal(t, 2, agentsIn(fleet.ToolsetFleet))
		require.Equal(t, 1, agentsIn(fleet.ToolsetLifecycle))
		require.Zero(t, agentsIn(fleet.ToolsetSessions))

		first := getAgent(t, s, id("u", 0))
		first.State, first.DeletedAt = fleet.StateDeleted, noon
		for range 2 { // a second deletion must not decrease the number again
			updateRows(t, s, first)
			require.Equal(t, 1, agentsIn(fleet.ToolsetFleet))
		}
		require.Equal(t, map[fleet.Toolset]int{fleet.ToolsetFleet: 1, fleet.ToolsetLifecycle: 1}, holdings(t, s, "alice").Agents)
	}},

	{"running tasks", func(t *testing.T, s fleet.Store) {
		task := newTask("t1", addAgent(t, s))
		insertRows(t, s, task)
		require.Equal(t, 1, holdings(t, s, "alice").RunningTasks)
		without := read(t, s, func(tx fleet.ReadTx) (fleet.Holdings, error) {
			return tx.Holdings("alice", fleet.Limits{RunningTasks: 1}, fleet.HoldingsScope{WithoutAgents: true})
		})
		require.Equal(t, 1, without.RunningTasks)
		require.Zero(t, without.AllAgents())
		require.Zero(t, holdings(t, s, "bob").RunningTasks)
		task.Status, task.EndedAt = fleet.TaskCompleted, noon
		updateRows(t, s, task)
		require.Zero(t, holdings(t, s, "alice").RunningTasks)
	}},

	{"agents and tasks in a project, of all owners", func(t *testing.T, s fleet.Store) {
		countsIn := func(project string) [2]int {
			h := projectHoldings(t, s, project)
			return [2]int{h.Agents, h.RunningTasks}
		}
		require.Zero(t, countsIn("shop"))
		for i, owner := range []string{"alice", "bob", "bob"} {
			a := newAgent(id("u", i), id("a", i), owner)
			a.Project = "shop"
			task := newTask(id("t", i), a)
			insertRows(t, s, a, task)
			if i == 2 {
				a.State, a.DeletedAt = fleet.StateDeleted, noon
				task.Status, task.EndedAt = fleet.TaskCompleted, noon
				update(t, s, func(tx fleet.Tx) error { return errors.Join(tx.Update(task), tx.Update(a)) })
			}
		}
		require.Equal(t, [2]int{2, 2}, countsIn("shop"))
		require.Zero(t, countsIn("sho"))
	}},

	{"bytes of text, output and payloads", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		var want int64
		requireGrowth := func(by int, fn func(tx fleet.Tx) error) {
			t.Helper()
			update(t, s, fn)
			want += int64(by)
			require.Equal(t, want, holdings(t, s, a.Owner).StoredBytes)
		}
		task := newTask("t1", a)
		task.Description = strings.Repeat("é", 5000) // longer than the part that lists show; each character has two bytes
		requireGrowth(10_000, func(tx fleet.Tx) error { return tx.Insert(task) })
		task.Summary = "sum"
		requireGrowth(3, func(tx fleet.Tx) error { return tx.Update(task) })
		requireGrowth(100, func(tx fleet.Tx) error { return tx.Put("t1", fleet.Payload(make([]byte, 100))) })
		requireGrowth(50, func(tx fleet.Tx) error { return tx.Put("t1", fleet.PayloadPiece(make([]byte, 50))) })
		requireGrowth(-140, func(tx fleet.Tx) error { return tx.Put("t1", fleet.Payload(make([]byte, 10))) })
		e := newEvent(fleet.EventTaskOutput, a, "output")
		e.Data = []byte("{}")
		e.Time = noon.Add(-time.Hour)
		requireGrowth(8, func(tx fleet.Tx) error { return tx.Append(e) })
		requireGrowth(1, func(tx fleet.Tx) error { return tx.Append(newEvent(fleet.EventTaskOutput, a, "x")) })
		pruneHistory(t, s, noon, 10)
		requireGrowth(-8, func(fleet.Tx) error { return nil })
		require.Zero(t, holdings(t, s, "bob").StoredBytes)
	}},

	{"bytes of the tasks of a project, of all owners", func(t *testing.T, s fleet.Store) {
		var want int64
		requireGrowth := func(by int, fn func(tx fleet.Tx) error) {
			t.Helper()
			update(t, s, fn)
			want += int64(by)
			require.Equal(t, want, projectHoldings(t, s, "shop").StoredBytes)
		}
		for i, owner := range []string{"alice", "bob"} {
			a := newAgent(id("u", i), "a", owner)
			a.Project = "shop"
			task := newTask(id("t", i), a)
			task.Description = strings.Repeat("é", 5000)
			requireGrowth(10_000, func(tx fleet.Tx) error { return errors.Join(tx.Insert(a), tx.Insert(task)) })
			requireGrowth(100, func(tx fleet.Tx) error { return tx.Put(task.ID, fleet.Payload(make([]byte, 100))) })
			requireGrowth(50, func(tx fleet.Tx) error { return tx.Put(task.ID, fleet.PayloadPiece(make([]byte, 50))) })
			requireGrowth(70, func(tx fleet.Tx) error {
				return tx.Put(task.ID, fleet.Attachments{{Name: "a", MediaType: "text/plain", Content: make([]byte, 40)}, {Name: "b", MediaType: "text/plain", Content: make([]byte, 30)}})
			})
			e := newEvent(fleet.EventTaskOutput, a, "output")
			e.TaskID, e.Data = task.ID, []byte("{}")
			requireGrowth(8, func(tx fleet.Tx) error { return tx.Append(e) })
			requireGrowth(0, func(tx fleet.Tx) error { return tx.Append(newEvent(fleet.EventAgentChanged, a, "of no task")) })
			task.Summary, task.Status, task.EndedAt, task.PayloadSize = "sum", fleet.TaskCompleted, noon, 150
			requireGrowth(3, func(tx fleet.Tx) error { return tx.Update(task) })
		}
		none := newAgent("u2", "a2", "alice")
		none.Project = ""
		requireGrowth(0, func(tx fleet.Tx) error { return errors.Join(tx.Insert(none), tx.Insert(newTask("t2", none))) })
		require.Zero(t, projectHoldings(t, s, "").StoredBytes)
		pruneHistory(t, s, noon.Add(time.Hour), 10)
		requireGrowth(-2*8, func(fleet.Tx) error { return nil })
		requireGrowth(-10_003-150-70, func(tx fleet.Tx) error { return tx.Delete(&fleet.Task{ID: id("t", 1)}) })
		_, err := s.Prune(t.Context(), fleet.PrunePayloads, noon.Add(time.Hour), 10)
		require.NoError(t, err)
		requireGrowth(-150-70, func(fleet.Tx) error { return nil })
		requireGrowth(-10_003, func(tx fleet.Tx) error { return tx.Delete(&fleet.Task{ID: id("t", 0)}) })
		require.Zero(t, want)
	}},
}

func projectHoldings(t tb, s fleet.Store, project string) fleet.ProjectHoldings {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (fleet.ProjectHoldings, error) { return tx.ProjectHoldings(project) })
}

func holdings(t tb, s fleet.Store, owner string) fleet.Holdings {
	t.Helper()
	return read(t, s, func(tx fleet.ReadTx) (fleet.Holdings, error) {
		return tx.Holdings(owner, fleet.Limits{}, fleet.HoldingsScope{})
	})
}
