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

// TestRunThatNobodyTold records the end of a task without interrupting its run, as a server does that dies in between or
// cannot reach the run. It checks that the run is interrupted afterwards, and that the agent is then deleted.
func TestRunThatNobodyTold(t *testing.T) {
	t.Parallel()
	second := servicetest.Second(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, servicetest.Others(second))
	v, err := h.Launch(h.Context(), servicetest.Launch("wait gate"))
	require.NoError(t, err)
	<-second.Reached("gate")
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		now, err := state.AgentView(tx, v.UID)
		require.NoError(t, err)
		return state.EndTask(tx, &now.Agent, now.Task, fleet.Outcome{Status: fleet.TaskCompleted, Reported: true}, time.Now().UTC(), nil)
	}))
	begun := time.Now()
	h.Gone(v.UID)
	require.Less(t, time.Since(begun), time.Minute)
	require.Equal(t, 1, second.Calls(fake.Interrupt))
}
