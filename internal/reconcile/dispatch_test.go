package reconcile_test

import (
	"strings"
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

// queueTask queues a task for the agent.
func queueTask(h *servicetest.Harness, agent, script string, e fleet.QueueEntry) *fleet.Task {
	h.T.Helper()
	t, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: service.StartTaskRequest{Agent: agent, Description: script}, Entry: e})
	require.NoError(h.T, err)
	require.Equal(h.T, fleet.TaskPending, t.Status)
	return t
}

// startCall makes the call in the background. The channel receives its error.
func startCall(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// TestQueue checks that pending tasks start in their order, one after the other, even after a restart.
func TestQueue(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	h.Create("sony")
	first := h.Start("papi", "wait gate")
	low := queueTask(h, "papi", "done low", fleet.QueueEntry{Priority: -1})
	high := queueTask(h, "papi", "done high", fleet.QueueEntry{Priority: 1})
	after := queueTask(h, "sony", "done after", fleet.QueueEntry{Dependencies: []fleet.Dependency{{TaskID: high.ID, Result: true}}})
	l, err := h.ListQueue(h.Context(), service.ListQueueRequest{})
	require.NoError(t, err)
	require.Equal(t, 3, l.Total)
	var order []string
	for _, i := range l.Items {
		var reasons []string
		for _, w := range i.Waits {
			reasons = append(reasons, string(w.Reason))
		}
		order = append(order, i.ID+" "+strings.Join(reasons, ","))
	}
	require.Equal(t, []string{high.ID + " agent_busy", after.ID + " dependency", low.ID + " agent_busy,behind"}, order)
	h.Restart()
	h.FakePlace.Release("gate")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(first.ID).Status)
	one, two, three := h.WaitTask(high.ID), h.WaitTask(low.ID), h.WaitTask(after.ID)
	require.Equal(t, []string{"high", "low", "after"}, []string{one.Summary, two.Summary, three.Summary})
	require.False(t, two.StartedAt.Before(one.EndedAt))
	require.False(t, three.StartedAt.Before(one.EndedAt))
	require.Contains(t, three.Description, "high")
}

// TestQueueEnds checks the reasons of tasks that end before they start.
func TestQueueEnds(t *testing.T) {
	t.Parallel()
	h := servicetest.NewWithPapi(t, fake.Config{}, func(c *state.Config) { c.LeaseTTL = waittest.Limit })
	h.Start("papi", "wait gate")
	expiringTask := queueTask(h, "papi", "done", fleet.QueueEntry{Expires: h.Service.Now().Add(50 * time.Millisecond)})
	require.Equal(t, "it expired before it could start", h.WaitTask(expiringTask.ID).Reason)
	taskOfDeletedAgent := queueTask(h, "papi", "done", fleet.QueueEntry{})
	stoppedTask := queueTask(h, "papi", "done", fleet.QueueEntry{})
	got, message, err := h.StopTaskByID(h.Context(), stoppedTask.ID, "")
	require.NoError(t, err)
	require.Equal(t, "Task stopped successfully", message)
	require.Equal(t, fleet.TaskStopped, got.Status)
	h.MustDelete("papi")
	require.Equal(t, "its agent was deleted", h.WaitTask(taskOfDeletedAgent.ID).Reason)
}
