package service_test

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

// TestCreateAgainWithTheSameID repeats create_agent after its project was removed and its agent was stopped or deleted.
// It checks that no other agent is created, and that the call fails if the agent is not ready.
func TestCreateAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	create := func() (*fleet.AgentView, string, error) {
		return h.CreateAgent(h.Context(), service.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: "x", RequestID: "one"})
	}
	first, _, err := create()
	require.NoError(t, err)

	h.FakePlace.SetProjects() // the project is gone
	h.Restart()
	again, message, err := create()
	require.NoError(t, err)
	require.Equal(t, first.UID, again.UID)
	require.Equal(t, "Agent 'papi' created successfully", message)

	_, _, err = h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	_, _, err = create()
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "was stopped meanwhile")

	_, _, err = h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi", RequestID: "restart"})
	require.NoError(t, err)
	_, _, err = h.DeleteAgent(h.Context(), "papi", false, "")
	require.NoError(t, err)
	_, _, err = create()
	require.Equal(t, fleet.ReasonAgentNotFound, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "was created by this request, and has been deleted since")
	require.Empty(t, h.FakePlace.Workspaces())
}

// TestStoppedMeanwhile checks that a call that waits for a state of an agent fails if another call meanwhile requests another
// state.
func TestStoppedMeanwhile(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("papi")
	hold := func(m fake.Method, call func() error, meanwhile func() error) error {
		gate := h.FakePlace.HoldAfter(m)
		done := make(chan error, 1)
		go func() { done <- call() }()
		<-gate.Arrived()
		other := make(chan error, 1)
		go func() { other <- meanwhile() }()
		h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Desired == fleet.DesiredStopped == (m != fake.Stop) })
		gate.Open()
		require.NoError(t, <-other)
		return <-done
	}
	stop := func() error { _, _, err := h.StopAgent(h.Context(), "papi", ""); return err }
	start := func() error { _, _, err := h.StartAgent(h.Context(), "papi", ""); return err }
	restart := func() error {
		_, _, err := h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi"})
		return err
	}

	err := hold(fake.Stop, stop, start) // a start during the stop
	require.Equal(t, fleet.ReasonProvisioningFailed, fleet.ReasonOf(err), err)
	require.ErrorContains(t, err, "is not stopped")
	require.NoError(t, stop())
	for _, call := range []func() error{start, restart} {
		err = hold(fake.Start, call, stop)
		require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err), err)
		require.ErrorContains(t, err, "was stopped meanwhile")
	}
}

// TestStartOfABusyAgent checks that a start does not end the task of an agent whose workspace has just become unhealthy.
func TestStartOfABusyAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("papi")
	task := h.Start("papi", "wait gate")
	<-h.FakePlace.Reached("gate")
	h.FakePlace.MakeUnhealthy("papi", "its workspace's agent has lost its connection")
	_, _, err := h.StartAgent(h.Context(), "papi", "")
	require.Equal(t, fleet.ReasonAgentBusy, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "has lost its connection")
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(task.ID).Status)
}

// TestStartDuringSomebodysStop checks that StartAgent starts the workspace of an agent again if somebody has just stopped it at its
// host and Fleet has not noticed the stop, with and without a running task.
func TestStartDuringSomebodysStop(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.PollInterval = time.Hour })
		h.Create("papi")
		if busy {
			h.Start("papi", "wait gate")
			<-h.FakePlace.Reached("gate")
			follow := h.FakePlace.HoldAfter(fake.Follow) // the end of the run is not known yet
			defer follow.Open()
		}
		h.FakePlace.StopWorkspace("papi")
		_, message, err := h.StartAgent(h.Context(), "papi", "")
		require.NoError(t, err)
		require.Equal(t, "Agent 'papi' is running", message)
		ws, _ := h.FakePlace.Workspace("papi")
		require.Equal(t, fleet.StateRunning, ws.State)
		require.Equal(t, 1, h.FakePlace.Calls(fake.Start))
	}
}

// TestOfflineBeforeIdle checks that StopTask and SendMessage fail with AGENT_OFFLINE for a stopped agent without a task, not with
// NO_RUNNING_TASK.
func TestOfflineBeforeIdle(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	_, _, err := h.StopAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	_, _, _, err = h.StopTask(h.Context(), "papi", "")
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
	_, _, err = h.SendMessage(h.Context(), "papi", "hi", "")
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
}
