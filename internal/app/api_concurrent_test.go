package app

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// callConcurrently makes the same call n times concurrently, on gRPC, REST and MCP in turn.
func (f *testFleet) callConcurrently(t *testing.T, n int, method string, args map[string]any) []reply {
	t.Helper()
	c, err := f.callOf(method, "", args)
	require.NoError(t, err)
	replies, errs := make([]reply, n), make([]error, n)
	begin := make(chan struct{})
	var calls sync.WaitGroup
	for i := range n {
		face := []string{"grpc", "rest", "mcp"}[i%3]
		calls.Go(func() {
			<-begin
			replies[i], errs[i] = faces[face](f, t.Context(), c)
		})
	}
	close(begin)
	calls.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	return replies
}

// TestConcurrentStarts checks that one of many calls for the same agent starts a task, and that the others get AGENT_BUSY.
func TestConcurrentStarts(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"})
	f.place.HoldRuns()
	startedTask := ""
	for _, r := range f.callConcurrently(t, 100, "start_agent_task", map[string]any{"agent_name": "papi", "task_description": "work"}) {
		if r.err == nil {
			require.Empty(t, startedTask, "two calls started a task")
			require.NoError(t, f.saveParts(map[string]string{"won": "task.id"}, r.answer))
			startedTask = f.variables["won"]
			continue
		}
		require.Equal(t, "AGENT_BUSY", r.err.Reason, "%s", r.err)
		require.Contains(t, []int{0, 409}, r.err.http)
		require.NotEmpty(t, r.err.Details["task_id"])
	}
	require.NotEmpty(t, startedTask, "no call started a task")
	f.prepare(t, step{
		Call: "show_agent_task_history", With: map[string]any{"agent_name": "papi"},
		Until: map[string]any{"total_count": 1, "tasks": []any{map[string]any{"id": startedTask, "status": "running"}}},
	})
	waittest.UntilSignalled(t, f.placeListings, func() bool { return f.place.RunCount(startedTask) > 0 })
	require.Equal(t, 1, f.place.DispatchCount(startedTask), "the task must be dispatched once")
}

// TestConcurrentRequestID checks that many calls with the same request id start one task, and get the same answer.
func TestConcurrentRequestID(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"})
	f.place.HoldRuns()
	replies := f.callConcurrently(t, 100, "start_agent_task", map[string]any{"agent_name": "papi", "task_description": "work", "request_id": "once"})
	for _, r := range replies {
		require.Nil(t, r.err, "%s", r.err)
		require.Equal(t, replies[0].answer, r.answer)
	}
	f.prepare(t, step{Call: "show_agent_task_history", With: map[string]any{"agent_name": "papi"}, Until: map[string]any{"total_count": 1}})
}

// TestConcurrentCreates checks that one of many calls with the same name creates an agent, and that the others get AGENT_EXISTS.
func TestConcurrentCreates(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"})
	created := 0
	for _, r := range f.callConcurrently(t, 30, "create_agent", map[string]any{"name": "sony", "project": "Setup", "spec": "s"}) {
		if r.err == nil {
			created++
			continue
		}
		require.Equal(t, "AGENT_EXISTS", r.err.Reason, "%s", r.err)
	}
	require.Equal(t, 1, created)
	require.Len(t, f.place.Workspaces(), 2)
}

// TestConcurrentStops checks that each of many calls either stops the task, or gets NO_RUNNING_TASK because it came after the end.
func TestConcurrentStops(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"}, step{Task: map[string]any{"agent_name": "papi", "task_description": "wait gate"}, Save: map[string]string{"task": "task.id"}})
	stopped := 0
	for _, r := range f.callConcurrently(t, 30, "stop_agent_task", map[string]any{"agent_name": "papi"}) {
		if r.err == nil {
			require.Empty(t, mismatches(map[string]any{"task": map[string]any{"id": f.variables["task"], "status": "stopped"}, "agent_status": "idle"}, r.answer))
			stopped++
			continue
		}
		require.Equal(t, "NO_RUNNING_TASK", r.err.Reason, "%s", r.err) // the task had ended before
	}
	require.NotZero(t, stopped)
}
