package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// readChanges returns the recorded changes of the task; nil if there are none.
func readChanges(h *servicetest.Harness, id string) *fleet.Changes {
	h.T.Helper()
	return servicetest.Read(h, func(tx fleet.ReadTx) (*fleet.Changes, error) { return tx.Changes(id) })
}

// changedPath returns the path of the file that the task changed, or the reason why that is unknown. It returns "" if the
// task changed nothing.
func changedPath(h *servicetest.Harness, id string) string {
	h.T.Helper()
	c := readChanges(h, id)
	switch {
	case c == nil:
		return ""
	case c.Problem != "":
		return c.Problem
	}
	require.False(h.T, c.At.IsZero())
	return c.FileChanges[0].Path
}

// TestChangesAreKept checks that Fleet stores what a task changed, or the reason why that is unknown.
func TestChangesAreKept(t *testing.T) {
	t.Parallel()
	world := fake.Config{Traits: fleet.Traits{SupportsChanges: true}}
	t.Run("however the task ends", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		for _, prompt := range []string{"done", "fail", "crash", "exit 3"} {
			task := h.Start("papi", "change "+prompt[:4]+" a line\n"+prompt)
			h.WaitTask(task.ID)
			require.Equal(t, prompt[:4], changedPath(h, task.ID))
		}
		task := h.Start("papi", "change stopped a line\nwait for-ever")
		<-h.FakePlace.Reached("for-ever")
		_, _, _, err := h.StopTask(h.Context(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, "stopped", changedPath(h, task.ID))
		require.Empty(t, changedPath(h, h.WaitTask(h.Start("papi", "done").ID).ID), "the task changed nothing")
	})
	t.Run("when the agent is deleted", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		task := h.Start("papi", "change before a line\nwait on")
		<-h.FakePlace.Reached("on")
		h.MustDelete("papi")
		require.Equal(t, "before", changedPath(h, task.ID))
	})
	t.Run("when the agent is deleted and another task waits for it", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		task := h.Start("papi", "change before a line\nwait on")
		<-h.FakePlace.Reached("on")
		queueTask(h, "papi", "done", fleet.QueueEntry{})
		h.MustDelete("papi")
		require.Equal(t, "before", changedPath(h, task.ID))
		require.NotZero(t, h.FakePlace.Calls(fake.Interrupt), "the run must end before its work is copied")
	})
	t.Run("later, although more tasks wait", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		task := h.Start("papi", "change first a line\nwait on\ndone")
		<-h.FakePlace.Reached("on")
		next := queueTask(h, "papi", "change second a line\ndone", fleet.QueueEntry{})
		last := queueTask(h, "papi", "done", fleet.QueueEntry{})
		h.FakePlace.Fail(fake.Changes, 1, fleet.Errorf(fleet.ReasonAgentOffline, "its workspace is stopped"))
		h.FakePlace.Release("on")
		h.WaitTask(last.ID)
		require.Equal(t, []string{"first", "second", ""}, []string{changedPath(h, task.ID), changedPath(h, next.ID), changedPath(h, last.ID)})
	})
	t.Run("later, if the workspace could not be reached at first", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.FakePlace.Fail(fake.Changes, 1, fleet.Errorf(fleet.ReasonAgentOffline, "its workspace is stopped"))
		task := h.WaitTask(h.Start("papi", "change first a line\ndone").ID)
		require.Equal(t, "its workspace is stopped", changedPath(h, task.ID))
		next := h.WaitTask(h.Start("papi", "change second a line\ndone").ID)
		require.Equal(t, []string{"first", "second"}, []string{changedPath(h, task.ID), changedPath(h, next.ID)})

		h.FakePlace.Fail(fake.Changes, 3, fleet.Errorf(fleet.ReasonBackendUnavailable, "Coder does not answer"))
		task = h.WaitTask(h.Start("papi", "change third a line\ndone").ID)
		require.Equal(t, "Coder does not answer", changedPath(h, task.ID))
		h.MustDelete("papi")
		require.Equal(t, "third", changedPath(h, task.ID))
	})
	t.Run("but not of a task whose output is from a terminal", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		terminalTask := h.Start("papi", "change before a line\nterminal\ndone")
		h.WaitTask(terminalTask.ID)
		_, err := h.TaskChanges(h.Context(), terminalTask.ID, service.SinceTask)
		require.Equal(t, fleet.ReasonChangesNotFound, fleet.ReasonOf(err))
		require.ErrorContains(t, err, "terminal")
		task := h.Start("papi", "terminal\necho ready\nwait for-ever")
		h.WaitAgent("papi", func(*fleet.AgentView) bool { return h.Output(task.ID) == "ready" })
		h.MustDelete("papi")
		require.Zero(t, h.FakePlace.Calls(fake.Changes))
	})
	t.Run("when the workspace is stopped without Fleet", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		task := h.Start("papi", "change before a line\nwait on")
		<-h.FakePlace.Reached("on")
		h.FakePlace.StopWorkspace("papi")
		require.Equal(t, fleet.TaskFailed, h.WaitTask(task.ID).Status)
		require.Equal(t, "before", changedPath(h, task.ID))
	})
	t.Run("a task also ends if the runner cannot say what it changed", func(t *testing.T) {
		t.Parallel()
		h := servicetest.NewWithPapi(t, world, nil)
		h.FakePlace.Fail(fake.Changes, 3, fleet.Errorf(fleet.ReasonProvisioningFailed, "the tree is gone"))
		task := h.WaitTask(h.Start("papi", "change first a line\ndone").ID)
		require.Equal(t, fleet.TaskCompleted, task.Status)
		require.Equal(t, "the tree is gone", changedPath(h, task.ID))

		h.FakePlace.Fail(fake.Changes, 2, fleet.Errorf(fleet.ReasonProvisioningFailed, "the disk is full"))
		next := h.WaitTask(h.Start("papi", "change second a line\ndone").ID)
		require.Equal(t, "the disk is full", changedPath(h, task.ID), "before the next task, Fleet tries only once")
		require.Equal(t, "second", changedPath(h, next.ID))
	})
}
