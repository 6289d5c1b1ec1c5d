package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
)

// TestMarker checks that a completion marker only counts as the last line of the final message, after the run has ended.
func TestMarker(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, servicetest.WithOtherPlace(b))
	v, err := h.Launch(h.Context(), servicetest.LaunchRequest("echo [CONTRACT COMPLETE]\nwait gate\ndone all\\n[CONTRACT COMPLETE]"))
	require.NoError(t, err)
	seen := false
	task, err := h.FollowTask(h.Context(), v.Task.ID, 0, func(e fleet.Event) error {
		if e.Type == fleet.EventTaskOutput {
			seen = true
			views, _, err := h.AgentsByUID(h.Context(), []string{v.UID})
			require.NoError(t, err)
			require.Equal(t, fleet.TaskRunning, views[0].Task.Status)
			b.Release("gate")
		}
		return nil
	})
	require.NoError(t, err)
	require.True(t, seen)
	require.Equal(t, fleet.TaskCompleted, task.Status)
	require.Equal(t, "all", task.Summary)
	require.True(t, task.Reported)
	h.WaitDeleted(v.UID)
}
