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

// endElsewhere ends the task of the agent in the store, as another server does, and does not interrupt its run.
func endElsewhere(t *testing.T, h *servicetest.Harness, uid string, now time.Time) {
	t.Helper()
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		v, err := state.AgentView(tx, uid)
		require.NoError(t, err)
		return state.EndTask(tx, &v.Agent, v.Task, fleet.Outcome{Status: fleet.TaskCompleted, Reported: true}, now.UTC(), nil)
	}))
}

// TestEndedTaskWhoseRunWasNotInterrupted records the end of a task without interrupting its run. This happens if a server
// dies in between or cannot reach the run. The test checks that the run is interrupted afterwards, and that the agent is
// then deleted.
func TestEndedTaskWhoseRunWasNotInterrupted(t *testing.T) {
	t.Parallel()
	second := servicetest.Second(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, servicetest.Others(second))
	v, err := h.Launch(h.Context(), servicetest.Launch("wait gate"))
	require.NoError(t, err)
	<-second.Reached("gate")
	endElsewhere(t, h, v.UID, time.Now())
	begun := time.Now()
	h.Gone(v.UID)
	require.Less(t, time.Since(begun), time.Minute)
	require.Equal(t, 1, second.Calls(fake.Interrupt))
}

// TestRunOnThisMachine ends a task as another server does. The run is on the machine of this server, so only this server
// can interrupt the run, and does not wait for the other. The clock stands still, so that no wait would end.
func TestRunOnThisMachine(t *testing.T) {
	t.Parallel()
	second := servicetest.Second(t, fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("second", "here")}})
	now := time.Now()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Replica, c.Others, c.Now = "here", []fleet.Place{second}, func() time.Time { return now }
	})
	r := servicetest.Launch("wait gate")
	r.Place = fleet.PlaceOn("second", "here")
	v, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	<-second.Reached("gate")
	endElsewhere(t, h, v.UID, now)
	h.Gone(v.UID)
	require.Equal(t, 1, second.Calls(fake.Interrupt))
}
