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
	"fleet/internal/waittest"
)

// queued queues a task for the agent.
func queued(h *servicetest.Harness, agent, script string, e fleet.QueueEntry) *fleet.Task {
	h.T.Helper()
	t, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Agent: agent, Description: script}, Entry: e})
	require.NoError(h.T, err)
	require.Equal(h.T, fleet.TaskPending, t.Status)
	return t
}

// begin makes the call in the background. The channel receives its error.
func begin(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// TestQueueEnds checks the reasons of tasks that end before they start.
func TestQueueEnds(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.LeaseTTL = waittest.Limit })
	h.Start("papi", "wait gate")
	expires := queued(h, "papi", "done", fleet.QueueEntry{Expires: h.Service.Now().Add(50 * time.Millisecond)})
	require.Equal(t, "it expired before it could start", h.WaitTask(expires.ID).Reason)
	gone := queued(h, "papi", "done", fleet.QueueEntry{})
	stopped := queued(h, "papi", "done", fleet.QueueEntry{})
	got, message, err := h.StopTaskByID(h.Context(), stopped.ID, "")
	require.NoError(t, err)
	require.Equal(t, "Task stopped successfully", message)
	require.Equal(t, fleet.TaskStopped, got.Status)
	h.MustDelete("papi")
	require.Equal(t, "its agent was deleted", h.WaitTask(gone.ID).Reason)
}
