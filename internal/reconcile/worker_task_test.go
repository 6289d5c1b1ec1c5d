package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestStop checks that a stop ends a run that obeys an interrupt, a run that must be killed, and a run that only ends with
// its workspace.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{
		"it obeys an interrupt":      "echo on\nwait gate",
		"it must be killed":          "ignore-interrupt\nwait gate",
		"it ends with its workspace": "ignore-kill\nwait gate",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Name: "fake", StopEndsRuns: true}}, nil)
			h.Create("papi")
			task := h.Start("papi", prompt)
			<-h.World.Reached("gate")
			stopped, _, message, err := h.StopTask(h.Context(), "papi", "")
			require.NoError(t, err)
			require.Equal(t, fleet.TaskStopped, stopped.Status)
			require.Equal(t, "stopped by alice", stopped.Reason)
			require.Equal(t, "Task stopped successfully", message)
			require.Equal(t, task.ID, stopped.ID)
		})
	}
}

// TestTimeout checks that a task fails at its time limit.
func TestTimeout(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "wait gate", Timeout: 100 * time.Millisecond})
	require.NoError(t, err)
	ended := h.WaitTask(task.ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Contains(t, ended.Reason, "100ms")
}
