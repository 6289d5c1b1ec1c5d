package reconcile_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestWorkspaceOfAnotherFleet checks that nothing is done to the workspace of another Fleet before it is taken over, even if this
// Fleet wanted the workspace to be stopped.
func TestWorkspaceOfAnotherFleet(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, nil)
	h.Create("still")
	h.MustStop("still")
	stops, starts := h.FakePlace.Calls(fake.Stop), h.FakePlace.Calls(fake.Start)
	h.FakePlace.GiveAway("papi", "another Fleet (abcd)")
	h.FakePlace.GiveAway("still", "another Fleet (abcd)")
	for _, name := range []string{"papi", "still"} {
		v := h.WaitAgent(name, func(v *fleet.AgentView) bool { return v.Host.ForeignOwner != "" && v.Settled() })
		require.Equal(t, fleet.StatusOffline, v.Status())
		require.Contains(t, v.StateReason, "another Fleet (abcd)")
		_, _, err := h.DeleteAgent(h.Context(), name, false, "")
		require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
		require.ErrorContains(t, err, "another Fleet (abcd)")
		_, _, err = h.StopAgent(h.Context(), name, "")
		require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err))
		_, _, err = h.StartAgent(h.Context(), name, "")
		require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err))
		_, _, err = h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: name})
		require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err))
		_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: name, Description: "done"})
		require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
	}
	require.Equal(t, []int{stops, starts}, []int{h.FakePlace.Calls(fake.Stop), h.FakePlace.Calls(fake.Start)})
	require.Len(t, h.FakePlace.Workspaces(), 2)

	v, _, err := h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi", TakeOver: true})
	require.NoError(t, err)
	require.Empty(t, v.Host.ForeignOwner)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
	h.MustDelete("papi")
}

// TestTakenOverMeanwhile lets another Fleet take over a workspace while this Fleet restarts it. The error of the call must say
// so.
func TestTakenOverMeanwhile(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{Adopts: true}}, nil)
	gate := h.FakePlace.HoldAfter(fake.Start)
	restarted := startCall(func() error {
		_, _, err := h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "papi"})
		return err
	})
	<-gate.Arrived()
	h.FakePlace.GiveAway("papi", "another Fleet (abcd)")
	gate.Open()
	err := <-restarted
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	require.ErrorContains(t, err, "belongs to another Fleet (abcd)")
}

// TestWorkThatFleetDoesNotKnow gives a task to an agent that works on something else, for example because the database was
// restored. The task fails, and its reason says what to do.
func TestWorkThatFleetDoesNotKnow(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, nil)
	h.FakePlace.Fail(fake.Dispatch, 1, fleet.Errorf(fleet.ReasonAgentBusy, "the agent %q is busy with the task %s", "papi", "another"))
	task := h.WaitTask(h.Start("papi", "done").ID)
	require.Equal(t, fleet.TaskFailed, task.Status)
	require.Contains(t, task.Reason, "busy with the task another; this Fleet does not know that work")
	require.Contains(t, task.Reason, "restart the agent")
}

// TestAdoptedAgentIsShown checks that an agent whose workspace was found at its host is shown as adopted, and that an agent that Fleet
// has created is not.
func TestAdoptedAgentIsShown(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: servicetest.Workspaces(1)}, nil)
	require.True(t, h.WaitAgent("agent-0", func(*fleet.AgentView) bool { return true }).Host.Adopted)
	<-h.FakePlace.Called(fake.List, h.FakePlace.Calls(fake.List)+2)
	require.True(t, h.WaitAgent("agent-0", func(*fleet.AgentView) bool { return true }).Host.Adopted)
	require.False(t, h.WaitAgent("papi", func(*fleet.AgentView) bool { return true }).Host.Adopted)
	require.Contains(t, strings.Join(h.Events(fleet.EventAgentCreated), "\n"), "agent adopted")
}
