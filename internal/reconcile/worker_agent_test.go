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

// TestStopOfTheWorkspace stops a task that only ends with its workspace. It checks that the agent is offline afterwards
// and refuses tasks, even before Fleet has polled the state of the workspace.
func TestStopOfTheWorkspace(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{Traits: fleet.Traits{Name: "fake", StopEndsRuns: true}}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Start("papi", "ignore-kill\nwait gate")
	<-h.FakePlace.Reached("gate")
	stopped, v, _, err := h.StopTask(h.Context(), "papi", "")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, stopped.Status)
	require.Equal(t, fleet.StatusOffline, v.Status())
	_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "echo too early"})
	require.Equal(t, fleet.ReasonAgentOffline, fleet.ReasonOf(err))
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped })
	v, _, err = h.StartAgent(h.Context(), "papi", "")
	require.NoError(t, err)
	require.Equal(t, fleet.StatusIdle, v.Status())
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "echo in time").ID).Status)
}

// TestRetryAfterAnotherClock lets a server whose clock is an hour ahead record when to retry. A server with the right time must
// not wait for an hour.
func TestRetryAfterAnotherClock(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.CreateWait = 50 * time.Millisecond
		c.Now = func() time.Time { return time.Now().Add(time.Hour) }
	})
	h.FakePlace.Fail(fake.Provision, 1<<30, nil)
	_, err := h.CreateIn("papi", "Setup")
	require.NoError(t, err)
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return !v.RetryAt.IsZero() })
	h.Config.Now = time.Now
	h.Restart()
	h.FakePlace.Fail(fake.Provision, 0, nil)
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Status() == fleet.StatusIdle })
}
