package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
)

// promptFirst is a world of which agents begin to work on their spec by themselves.
func promptFirst() fake.Config {
	return fake.Config{Projects: []fake.Project{{Project: fleet.Project{Name: "Setup", SpecIsTask: true}}}}
}

// begin creates an agent that begins by itself.
func (h *harness) begin(spec string) (*fleet.AgentView, error) {
	h.t.Helper()
	v, _, err := h.CreateAgent(h.ctx(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: spec})
	return v, err
}

// TestSelfStarted has an agent begin by itself: what it does is its first task, from the beginning on, and it is not
// handed it.
func TestSelfStarted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, promptFirst(), nil)
	v, err := h.begin("echo a\nwait gate\necho b\ndone built")
	require.NoError(t, err)
	require.Equal(t, fleet.StatusBusy, v.Status())
	require.Equal(t, fleet.SourceHuman, v.Task.Source)
	h.restart() // another process follows it
	h.world.Release("gate")
	task := h.end(v.Task.ID)
	require.Equal(t, fleet.TaskCompleted, task.Status)
	require.Equal(t, "built", task.Summary)
	require.Equal(t, "ab", h.output(task.ID))
	require.Equal(t, 1, h.world.Deliveries(task.ID))
	require.Equal(t, []string{"the agent begins the task by itself"}, h.events(fleet.EventTaskStarted))

	_, _, err = h.RestartAgent(h.ctx(), "papi", "", "")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.end(h.start("papi", "done").ID).Status)
}

// TestSelfStartedLaunch launches an agent that begins by itself, with and without a task: its spec and its task are one.
func TestSelfStartedLaunch(t *testing.T) {
	t.Parallel()
	h := newHarness(t, promptFirst(), nil)
	for _, r := range []service.LaunchRequest{
		{Spec: "echo a", Prompt: "done built"}, {Spec: "echo a\n\ndone built"}, {Prompt: "echo a\n\ndone built"},
	} {
		r.Method, r.Toolset, r.Project = "Run", fleet.ToolsetSubagents, "Setup"
		v, err := h.Launch(h.ctx(), r)
		require.NoError(t, err)
		task := h.end(v.Task.ID)
		require.Equal(t, "built", task.Summary, task.Reason)
		require.Equal(t, "echo a\n\ndone built", task.Description)
		require.Equal(t, 1, h.world.Deliveries(task.ID))
	}
}

// TestSelfStartedNowhere has an agent that is to begin by itself, and does not, or is never made: the task has failed.
func TestSelfStartedNowhere(t *testing.T) {
	t.Parallel()
	t.Run("it does not begin", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, promptFirst(), nil)
		h.world.Fail(fake.Dispatch, 1, fleet.Errorf(fleet.ReasonTaskNotFound, "it has not begun"))
		v, err := h.begin("wait gate")
		require.NoError(t, err)
		task := h.end(h.first(v.UID).ID)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Contains(t, task.Reason, "it has not begun")
	})
	t.Run("its build fails", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, promptFirst(), nil)
		h.world.FailBuild("papi", "no room")
		_, err := h.begin("wait gate")
		require.Equal(t, fleet.ReasonProvisioningFailed, reason(err))
		v, err := h.ShowAgent(h.ctx(), "papi")
		require.NoError(t, err)
		task := h.end(h.first(v.UID).ID)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Contains(t, task.Reason, "no room")
	})
	t.Run("its name is taken", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, promptFirst(), nil)
		h.world.Fail(fake.Provision, 1, fleet.Errorf(fleet.ReasonAgentExists, "it is taken"))
		_, err := h.begin("wait gate")
		require.Equal(t, fleet.ReasonAgentExists, reason(err))
		require.Equal(t, []string{"its agent was not made: it is taken"}, h.events(fleet.EventTaskEnded))
	})
	t.Run("it is deleted first", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, promptFirst(), func(c *state.Config) { c.CreateWait = 50 * time.Millisecond })
		gate := h.world.HoldBuilds()
		defer gate.Open()
		v, err := h.begin("wait gate")
		require.NoError(t, err)
		require.Equal(t, fleet.StatusOffline, v.Status())
		require.NoError(t, h.Remove(h.ctx(), v.UID))
		require.Equal(t, fleet.TaskStopped, h.end(v.Task.ID).Status)
	})
}

// first is the agent's first task.
func (h *harness) first(uid string) (task *fleet.Task) {
	h.t.Helper()
	require.NoError(h.t, h.store.View(h.t.Context(), func(tx fleet.ReadTx) error {
		tasks, total, err := tx.Tasks(uid, 1, 0)
		if err == nil {
			require.Equal(h.t, 1, total)
			task = tasks[0]
		}
		return err
	}))
	return task
}
