package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// selfStartingWorld returns a world whose agents start to work on their spec by themselves.
func selfStartingWorld() fake.Config {
	return fake.Config{Projects: []fake.Project{{Project: fleet.Project{Name: "Setup", SpecIsTask: true}}}}
}

// createSelfStarting creates the agent papi in the world of selfStartingWorld.
func createSelfStarting(h *servicetest.Harness, spec string) (*fleet.AgentView, error) {
	h.T.Helper()
	v, _, err := h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: spec})
	return v, err
}

// TestSelfStarted checks that the work of an agent on its spec is its first task, with all its output, that the agent gets
// this task only once, and that it accepts another task after a restart.
func TestSelfStarted(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, selfStartingWorld(), nil)
	v, err := createSelfStarting(h, "echo a\nwait gate\necho b\ndone built")
	require.NoError(t, err)
	require.Equal(t, fleet.StatusBusy, v.Status())
	require.Equal(t, fleet.SourceHuman, v.Task.Source)
	h.Restart() // another process follows it
	h.FakePlace.Release("gate")
	task := h.WaitTask(v.Task.ID)
	require.Equal(t, fleet.TaskCompleted, task.Status)
	require.Equal(t, "built", task.Summary)
	require.Equal(t, "ab", h.Output(task.ID))
	require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
	require.Equal(t, []string{"the agent begins the task by itself"}, h.Events(fleet.EventTaskStarted))

	_, _, err = h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi"})
	require.NoError(t, err)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
}

// TestSelfStartedLaunch launches self-starting agents with a spec, a prompt or both. It checks that the spec and the
// prompt become one task.
func TestSelfStartedLaunch(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, selfStartingWorld(), nil)
	for _, r := range []service.LaunchRequest{
		{Spec: "echo a", Prompt: "done built"}, {Spec: "echo a\n\ndone built"}, {Prompt: "echo a\n\ndone built"},
	} {
		r.Method, r.Toolset, r.Project = "Run", fleet.ToolsetSubagents, "Setup"
		v, err := h.Launch(h.Context(), r)
		require.NoError(t, err)
		task := h.WaitTask(v.Task.ID)
		require.Equal(t, "built", task.Summary, task.Reason)
		require.Equal(t, "echo a\n\ndone built", task.Description)
		require.Equal(t, 1, h.FakePlace.RunCount(task.ID))
	}
}

// TestSelfStartedThatDoesNotBegin checks how the first task ends if the agent does not start to work, is never created, or is
// deleted first.
func TestSelfStartedThatDoesNotBegin(t *testing.T) {
	t.Parallel()
	t.Run("the agent does not begin", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, selfStartingWorld(), nil)
		h.FakePlace.Fail(fake.Dispatch, 1, fleet.Errorf(fleet.ReasonTaskNotFound, "it has not begun"))
		v, err := createSelfStarting(h, "wait gate")
		require.NoError(t, err)
		task := h.WaitTask(firstTask(h, v.UID).ID)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Contains(t, task.Reason, "it has not begun")
	})
	t.Run("its build fails", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, selfStartingWorld(), nil)
		h.FakePlace.FailBuild("papi", "no room")
		_, err := createSelfStarting(h, "wait gate")
		require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err))
		v, err := h.ShowAgent(h.Context(), "papi")
		require.NoError(t, err)
		task := h.WaitTask(firstTask(h, v.UID).ID)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Contains(t, task.Reason, "no room")
	})
	t.Run("its name is taken", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, selfStartingWorld(), nil)
		h.FakePlace.Fail(fake.Provision, 1, fleet.Errorf(fleet.ReasonAgentExists, "it is taken"))
		_, err := createSelfStarting(h, "wait gate")
		require.Equal(t, fleet.ReasonAgentExists, fleet.ReasonOf(err))
		require.Equal(t, []string{"its agent was not created: it is taken"}, h.Events(fleet.EventTaskEnded))
	})
	t.Run("its workspace is unhealthy until its time limit", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, selfStartingWorld(), func(c *state.Config) { c.CreateWait = 50 * time.Millisecond })
		gate := h.FakePlace.HoldBuilds()
		defer gate.Open()
		v, err := createSelfStarting(h, "wait gate")
		require.NoError(t, err)
		h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateStarting && v.WorkspaceID != "" })
		h.FakePlace.MakeUnhealthy("papi", "no answer")
		h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateUnhealthy })
		require.Equal(t, fleet.TaskRunning, firstTask(h, v.UID).Status)
		h.Config.Now = func() time.Time { return time.Now().Add(v.Task.Timeout + time.Minute) }
		h.Restart()
		task := h.WaitTask(v.Task.ID)
		require.Equal(t, fleet.TaskFailed, task.Status)
		require.Equal(t, state.TimeoutReason(task), task.Reason)
		require.Zero(t, h.FakePlace.Calls(fake.Dispatch))
	})
	t.Run("the agent is deleted first", func(t *testing.T) {
		t.Parallel()
		h := servicetest.New(t, selfStartingWorld(), func(c *state.Config) { c.CreateWait = 50 * time.Millisecond })
		gate := h.FakePlace.HoldBuilds()
		defer gate.Open()
		v, err := createSelfStarting(h, "wait gate")
		require.NoError(t, err)
		require.Equal(t, fleet.StatusOffline, v.Status())
		require.NoError(t, h.RemoveAgent(h.Context(), v.UID))
		require.Equal(t, fleet.TaskStopped, h.WaitTask(v.Task.ID).Status)
	})
}

// TestSelfStartedStopped stops the first task of a self-starting agent before its workspace runs. The workspace starts
// the agent anyway, so the run must be interrupted once it exists. After that the agent accepts a task.
func TestSelfStartedStopped(t *testing.T) {
	t.Parallel()
	stops := map[string]func(h *servicetest.Harness, task *fleet.Task){
		"on request": func(h *servicetest.Harness, task *fleet.Task) {
			stopped, _, text, err := h.StopTask(h.Context(), "papi", "")
			require.NoError(h.T, err)
			require.Equal(h.T, fleet.TaskRunning, stopped.Status)
			require.Contains(h.T, text, "is being stopped and has not ended yet")
		},
		"after its time limit": func(h *servicetest.Harness, task *fleet.Task) {
			h.Config.Now = func() time.Time { return time.Now().Add(task.Timeout + time.Minute) }
			h.Restart()
			h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Task != nil && !v.Task.StopRequestedAt.IsZero() })
		},
	}
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, selfStartingWorld(), func(c *state.Config) { c.CreateWait = 50 * time.Millisecond })
			gate := h.FakePlace.HoldBuilds()
			defer gate.Open()
			v, err := createSelfStarting(h, "echo a\nwait gate\ndone built")
			require.NoError(t, err)
			stop(h, v.Task)
			gate.Open()
			task := h.WaitTask(v.Task.ID)
			require.Equal(t, task.StopReason, task.Reason)
			require.NotZero(t, h.FakePlace.Calls(fake.Interrupt), "the run must be interrupted")
			require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
		})
	}
}

// firstTask returns the agent's first task, and fails the test if the agent has more than one.
func firstTask(h *servicetest.Harness, uid string) (task *fleet.Task) {
	h.T.Helper()
	require.NoError(h.T, h.Store.View(h.T.Context(), func(tx fleet.ReadTx) error {
		tasks, total, err := tx.Tasks(uid, 1, 0)
		if err == nil {
			require.Equal(h.T, 1, total)
			task = tasks[0]
		}
		return err
	}))
	return task
}
