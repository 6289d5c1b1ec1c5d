package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestCollectingIsShown checks that a task shows that its work is being collected, until that is done.
func TestCollectingIsShown(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{SupportsChanges: true}}, func(c *state.Config) { c.CollectNotice = time.Millisecond })
	gate := h.FakePlace.Hold(fake.Changes)
	task := h.Start("papi", "change first a line\ndone")
	v := h.WaitAgent("papi", (*fleet.AgentView).Collecting)
	require.Equal(t, fleet.TaskRunning, v.Task.Status)
	require.Equal(t, fleet.StatusBusy, v.Status())
	gate.Open()
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskCompleted, ended.Status)
	require.False(t, ended.Collecting())
	require.Equal(t, "first", changedPath(h, task.ID))
}

// TestStopWhileCollecting checks that a stop or a deletion says that it waits for the collection of the agent's work, and that
// this wait has a limit.
func TestStopWhileCollecting(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, wait time.Duration) (*servicetest.Harness, *fake.Gate, *fleet.Task) {
		h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{SupportsChanges: true}}, func(c *state.Config) { c.CollectNotice, c.CollectWait = time.Millisecond, wait })
		gate := h.FakePlace.Hold(fake.Changes)
		t.Cleanup(gate.Open)
		task := h.Start("papi", "change first a line\ndone")
		h.WaitAgent("papi", (*fleet.AgentView).Collecting)
		return h, gate, task
	}
	t.Run("a stop of the task", func(t *testing.T) {
		t.Parallel()
		h, gate, task := setup(t, time.Hour)
		stopped := startCall(func() error { _, _, _, err := h.StopTask(h.Context(), "papi", ""); return err })
		h.WaitAgent("papi", func(*fleet.AgentView) bool {
			events := h.TaskEvents(task.ID, fleet.EventTaskStopping)
			return len(events) > 0 && events[len(events)-1] == "the work of its task is collected first, for at most 1h0m0s"
		})
		gate.Open()
		require.NoError(t, <-stopped)
		h.WaitTask(task.ID)
		require.Equal(t, "first", changedPath(h, task.ID))
	})
	t.Run("a stop of the agent", func(t *testing.T) {
		t.Parallel()
		h, _, task := setup(t, 50*time.Millisecond)
		h.MustStop("papi")
		h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped })
		require.Contains(t, changedPath(h, h.WaitTask(task.ID).ID), "took longer than a stop or a deletion waits")
	})
	t.Run("a deletion of the agent", func(t *testing.T) {
		t.Parallel()
		h, _, _ := setup(t, 50*time.Millisecond)
		h.MustDelete("papi")
	})
	t.Run("a deletion of the agent says that it waits", func(t *testing.T) {
		t.Parallel()
		h, gate, task := setup(t, time.Hour)
		deleted := startCall(func() error { _, _, err := h.DeleteAgent(h.Context(), "papi", false, ""); return err })
		h.WaitAgent("papi", func(v *fleet.AgentView) bool {
			return v.State == fleet.StateDeleting && v.StateReason == "the work of its task is collected first, for at most 1h0m0s"
		})
		gate.Open()
		require.NoError(t, <-deleted)
		require.Equal(t, "first", changedPath(h, task.ID))
	})
}

// TestCollectionThatCrashesTheServer checks that work is left alone after its collection has crashed the server three times, and that
// orderly ends of the server do not count.
func TestCollectionThatCrashesTheServer(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{SupportsChanges: true}}, nil)
	task := h.Start("papi", "change first a line\nwait on")
	<-h.FakePlace.Reached("on")
	record := func(c *fleet.Changes) {
		require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error { return tx.Put(task.ID, c) }))
	}
	gate := h.FakePlace.Hold(fake.Changes)
	h.FakePlace.Release("on")
	<-gate.Arrived()
	require.Equal(t, 1, readChanges(h, task.ID).Tries)
	h.Reconciler.Stop()
	require.Zero(t, readChanges(h, task.ID).Tries, "an orderly end of the server")
	record(&fleet.Changes{Problem: readChanges(h, task.ID).Problem, Temporary: true, Tries: 3}) // as if three servers had been killed
	gate.Open()
	h.Reconciler = nil
	h.Restart()
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
	require.Contains(t, changedPath(h, task.ID), "left alone")
	require.False(t, readChanges(h, task.ID).Temporary)
}
