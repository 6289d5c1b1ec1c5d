package reconcile_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestFreshAgentIsNotShared queues tasks for a pool whose agents have one task each. While a task waits for its next attempt, another
// task gets another agent. If the waiting task is stopped, its agent is deleted.
func TestFreshAgentIsNotShared(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	_, err := h.CreatePool(h.Context(), service.CreatePoolRequest{Pool: fleet.Pool{Name: "web", Spec: "a spec", Reuse: fleet.ReuseFresh, MaxAgents: 2}, Project: "Setup"})
	require.NoError(t, err)
	queue := func(script string) *fleet.Task {
		task, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Description: script}, Pool: "web"})
		require.NoError(t, err)
		return task
	}
	first := queue("session s1\nfail-first 1 USAGE_WINDOW\ndone")
	first = &waitForRetry(h, first.ID, 1).Task
	require.NotEmpty(t, first.AgentUID)
	second := h.WaitTask(queue("done").ID)
	require.Equal(t, fleet.TaskCompleted, second.Status)
	require.NotEqual(t, first.AgentUID, second.AgentUID)
	h.WaitDeleted(second.AgentUID)

	stopped, _, err := h.StopTaskByID(h.Context(), first.ID, "")
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, stopped.Status)
	h.WaitDeleted(first.AgentUID)
}
