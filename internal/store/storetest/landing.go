package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

var landingCases = []testCase{
	{"landings, by task and by state", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		one, two, running := fullTask("t1", a), fullTask("t2", a), newTask("t3", a)
		insertRows(t, s, one, two, running)
		landings := func(f fleet.LandingFilter) []*fleet.Landing {
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Landing, error) { return tx.Landings(f) })
		}
		require.Empty(t, landings(fleet.LandingFilter{}))
		require.Empty(t, landings(fleet.LandingFilter{TaskIDs: []string{"t1", "t3"}}))
		first := &fleet.Landing{TaskID: "t1", State: fleet.LandingBranch, Place: "local", Project: "Setup", Head: "h1", FileCount: 2, UpdatedAt: noon}
		second := &fleet.Landing{
			TaskID: "t2", State: fleet.LandingQueued, Head: "h2", Candidate: "c", EvidenceAt: noon.Add(time.Second), UpdatedAt: noon,
			Request:   &fleet.LandingRequest{By: "alice", Authorization: fleet.Authorization{Kind: fleet.KindHuman}, At: noon, Into: "main", Strategy: fleet.Squash, Batch: 1, Fix: true},
			Conflicts: []fleet.Conflict{{Path: "a b\n", Kind: "content", Hunks: "<<<<<<<\n"}}, EarlierTasks: []string{"t1"},
		}
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Put("t1", first))
			return tx.Put("t2", second)
		})
		require.Equal(t, []*fleet.Landing{first}, landings(fleet.LandingFilter{TaskIDs: []string{"t1", "t3"}}))
		require.Equal(t, []*fleet.Landing{second}, landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued, fleet.LandingLanded}}))
		require.Len(t, landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued, fleet.LandingBranch}}), 2)
		first.State, first.Commit = fleet.LandingLanded, "c1"
		update(t, s, func(tx fleet.Tx) error { return tx.Put("t1", first) })
		require.Equal(t, []*fleet.Landing{first}, landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingLanded}}))
		found := func(states ...fleet.LandingState) (ids []string) {
			tasks := read(t, s, func(tx fleet.ReadTx) (fleet.FoundTasks, error) {
				return tx.FindTasks(fleet.TaskFilter{LandingStates: states, Owner: a.Owner}, fleet.TaskWindow{Limit: 10, Count: 10})
			})
			for _, task := range tasks.Tasks {
				ids = append(ids, task.ID)
			}
			return ids
		}
		require.Equal(t, []string{"t1"}, found(fleet.LandingLanded))
		require.ElementsMatch(t, []string{"t1", "t2"}, found(fleet.LandingLanded, fleet.LandingQueued))
		require.Empty(t, found(fleet.LandingConflict))
	}},

	{"the reviews and the landing of a task are deleted with it", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		task := fullTask("t1", a)
		all := []*fleet.Review{
			{ID: "r2", TaskID: "t1", By: "bob", At: noon, Verdict: fleet.VerdictChanges, Text: "no", Comments: []fleet.ReviewComment{{Path: "a", Line: 3, Old: true, Text: "why?"}}, Head: "h", NextTask: "t2"},
			{ID: "r1", TaskID: "t1", By: "alice", At: noon, Verdict: fleet.VerdictApprove, Head: "h"},
		}
		update(t, s, func(tx fleet.Tx) error {
			require.NoError(t, tx.Insert(task))
			require.NoError(t, tx.Put("t1", &fleet.Landing{State: fleet.LandingApproved}))
			return errors.Join(tx.Insert(all[0]), tx.Insert(all[1]))
		})
		reviews := func() []*fleet.Review {
			return read(t, s, func(tx fleet.ReadTx) ([]*fleet.Review, error) { return tx.Reviews("t1") })
		}
		require.Equal(t, all, reviews())
		update(t, s, func(tx fleet.Tx) error { return tx.Delete(task) })
		require.Empty(t, reviews())
		require.Empty(t, read(t, s, func(tx fleet.ReadTx) ([]*fleet.Landing, error) {
			return tx.Landings(fleet.LandingFilter{TaskIDs: []string{"t1"}})
		}))
	}},
}
