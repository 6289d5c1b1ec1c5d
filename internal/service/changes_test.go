package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
)

// changed is the path of the file that the task changed, or why that is not known.
func (h *harness) changed(id string) string {
	h.t.Helper()
	var c *fleet.Changes
	require.NoError(h.t, h.store.View(h.t.Context(), func(tx fleet.ReadTx) (err error) {
		c, err = tx.Changes(id)
		return err
	}))
	switch {
	case c == nil:
		return ""
	case c.Problem != "":
		return c.Problem
	}
	require.False(h.t, c.At.IsZero())
	return c.List[0].Path
}

func TestChangesAreKept(t *testing.T) {
	t.Parallel()
	world := fake.Config{Traits: fleet.Traits{Changes: true}}
	t.Run("however the task ends", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, world, nil)
		h.create("papi")
		for _, prompt := range []string{"done", "fail", "crash", "exit 3"} {
			task := h.start("papi", "change "+prompt[:4]+" a line\n"+prompt)
			h.end(task.ID)
			require.Equal(t, prompt[:4], h.changed(task.ID))
		}
		task := h.start("papi", "change stopped a line\nwait for-ever")
		<-h.world.Reached("for-ever")
		_, _, _, err := h.StopTask(h.ctx(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, "stopped", h.changed(task.ID))
		require.Empty(t, h.changed(h.end(h.start("papi", "done").ID).ID), "a task that changed nothing")
	})
	t.Run("when the agent is deleted", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, world, nil)
		h.create("papi")
		task := h.start("papi", "change before a line\nwait on")
		<-h.world.Reached("on")
		_, _, err := h.DeleteAgent(h.ctx(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, "before", h.changed(task.ID))
	})
	t.Run("when the workspace is reached again", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, world, nil)
		h.create("papi")
		h.world.Fail(fake.Changes, 1, fleet.Errorf(fleet.ReasonAgentOffline, "its workspace is stopped"))
		task := h.end(h.start("papi", "change first a line\ndone").ID)
		require.Equal(t, "its workspace is stopped", h.changed(task.ID))
		next := h.end(h.start("papi", "change second a line\ndone").ID)
		require.Equal(t, []string{"first", "second"}, []string{h.changed(task.ID), h.changed(next.ID)})

		h.world.Fail(fake.Changes, 1, fleet.Errorf(fleet.ReasonBackendUnavailable, "Coder does not answer"))
		task = h.end(h.start("papi", "change third a line\ndone").ID)
		require.Equal(t, "Coder does not answer", h.changed(task.ID))
		_, _, err := h.DeleteAgent(h.ctx(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, "third", h.changed(task.ID))
	})
	t.Run("not from a terminal", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, world, nil)
		h.create("papi")
		ended := h.start("papi", "change before a line\nterminal\ndone")
		h.end(ended.ID)
		_, err := h.TaskChanges(h.ctx(), ended.ID)
		require.Equal(t, fleet.ReasonChangesNotFound, fleet.ReasonOf(err))
		require.ErrorContains(t, err, "terminal")
		task := h.start("papi", "terminal\necho ready\nwait for-ever")
		h.until("papi", func(*fleet.AgentView) bool { return h.output(task.ID) == "ready" })
		_, _, err = h.DeleteAgent(h.ctx(), "papi", "")
		require.NoError(t, err)
		require.Zero(t, h.world.Calls(fake.Changes))
	})
	t.Run("when the workspace is stopped behind the fleet's back", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, world, nil)
		h.create("papi")
		task := h.start("papi", "change before a line\nwait on")
		<-h.world.Reached("on")
		h.world.StopWorkspace("papi")
		require.Equal(t, fleet.TaskFailed, h.end(task.ID).Status)
		require.Equal(t, "before", h.changed(task.ID))
	})
	t.Run("a runner that cannot tell keeps no task from its end", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, world, nil)
		h.create("papi")
		h.world.Fail(fake.Changes, 1, fleet.Errorf(fleet.ReasonProvisioningFailed, "the tree is gone"))
		task := h.end(h.start("papi", "change a line\ndone").ID)
		require.Equal(t, fleet.TaskCompleted, task.Status)
		require.Equal(t, "the tree is gone", h.changed(task.ID))
	})
}
