package app

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/health/grpc_health_v1"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// busy takes all slots of the server, and returns the number of slots.
func (f *testFleet) busy(t *testing.T) (slots int) {
	t.Helper()
	slots = runtime.GOMAXPROCS(0) // see Limits.CallsPerCPU below
	for range slots {
		require.NoError(t, f.slots.Take(t.Context(), "mallory"))
	}
	return slots
}

// calls makes a call on the face in the background, and returns a channel that receives the answer.
func (f *testFleet) calls(ctx context.Context, face string, c call) <-chan reply {
	answers := make(chan reply, 1)
	go func() {
		defer close(answers)
		if r, err := faces[face](f, ctx, c); err == nil {
			answers <- r
		}
	}()
	return answers
}

// queued waits until n calls wait for a slot.
func (f *testFleet) queued(t *testing.T, n int) {
	t.Helper()
	waittest.Until(t, "a waiting call gives no signal", func() bool { return f.slots.Waiting() == n })
}

// TestCallsWaitForTheirTurn calls a server on all faces while all of its slots for calls are taken. One call must wait
// and be answered in the end. Further calls of the same principal must be refused. Health and metrics must be answered
// at once.
func TestCallsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "bob": {}, "root": {Admin: true}}, Limits: fleet.Limits{CallsPerCPU: 1, WaitingCalls: 1},
	})
	list := call{method: methods["list_agents"], args: map[string]any{}, by: "alice"}
	for _, face := range []string{"grpc", "rest", "mcp"} { // connects, and begins a session
		r, err := faces[face](f, t.Context(), list)
		require.NoError(t, err)
		require.Nil(t, r.err)
	}
	slots := f.busy(t)
	for _, face := range []string{"grpc", "rest", "mcp"} {
		waiting := f.calls(t.Context(), face, list)
		f.queued(t, 1)
		r, err := faces[face](f, t.Context(), list)
		require.NoError(t, err)
		require.NotNil(t, r.err, face)
		require.Equal(t, "LIMIT_REACHED", r.err.Reason)
		require.Equal(t, "the server is busy, and you have 1 waiting calls, which is the limit: make fewer at the same time, or ask the operator to raise limits.waiting_calls", r.err.Message)
		require.Equal(t, map[string]any{"limit": "limits.waiting_calls", "used": "1", "max": "1", "retry_after_seconds": json.Number("1")}, r.err.Details)

		f.slots.Leave()
		answer := <-waiting
		require.Nil(t, answer.err)
		require.NotNil(t, answer.answer, face)
		require.NoError(t, f.slots.Take(t.Context(), "mallory"))
	}

	ctx, cancel := context.WithCancel(t.Context())
	gone := f.calls(ctx, "grpc", list)
	f.queued(t, 1)
	f.refusesRequests(t)
	resp := f.post(t, "/mcp", `{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)

	ask := func(path, by string) string {
		status, body := f.answerTo(t, http.MethodGet, "http://"+f.HTTPAddr()+path, by)
		require.Equal(t, http.StatusOK, status, body)
		return body
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		ask(path, "")
	}
	h, err := grpc_health_v1.NewHealthClient(f.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, h.GetStatus())
	require.Contains(t, ask("/metrics", f.authorization("root")), "\nfleet_calls_waiting 1\n")

	cancel()
	<-gone
	f.queued(t, 0)
	for range slots {
		f.slots.Leave()
	}
	require.Contains(t, ask("/metrics", f.authorization("root")), "\nfleet_call_wait_seconds_count 4\n")
	require.NotContains(t, ask("/v1/agents", f.authorization("alice")), "papi", "a refused call must have no effect")
}

// TestWaitingCallsHoldNoSlot makes each kind of call that waits for an event or another server. While the call waits,
// it must not hold a slot.
func TestWaitingCallsHoldNoSlot(t *testing.T) {
	t.Parallel()
	s := &story{
		testFleet: newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Limits: fleet.Limits{CallsPerCPU: 1}}),
		names:     map[string]string{},
	}
	for _, given := range []step{
		{Agent: "papi", By: "alice"},
		{Agent: "sony", By: "alice"},
		{Task: map[string]any{"agent_name": "papi", "task_description": "wait gate"}, By: "alice", Save: map[string]string{"task": "task.id"}},
		{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, By: "alice", Save: map[string]string{"session": "agent_session_id"}},
		{World: map[string]any{"hold_sends": true, "hold_builds": true}},
	} {
		require.NoError(t, s.do(t.Context(), given))
	}
	slots := s.busy(t)
	for _, waits := range []struct {
		method string
		with   map[string]any
	}{
		{"wait_tasks", map[string]any{"task_ids": []any{"${task}"}, "timeout_seconds": 50}},
		{"watch_fleet", map[string]any{"cursor": "now", "follow": true}},
		{"send_task_message", map[string]any{"agent_name": "papi", "message": "and the tests"}},
		{"create_agent", map[string]any{"name": "late", "project": "Setup", "spec": "s"}},
		{"run_subagent", map[string]any{"agent_name": "web-search", "prompt": "wait gate"}},
		{"execute_agent_request", map[string]any{"agent_name": "claude", "prompt": "wait gate"}},
		{"send_message", map[string]any{"agent_session_id": "${session}", "message": "wait gate"}},
		{"invoke_agent", map[string]any{"agent": "echo", "message": "wait gate"}},
	} {
		c, err := s.callOf(waits.method, waits.with, "alice")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		answer := s.calls(ctx, "grpc", c)
		s.queued(t, 1)
		s.slots.Leave()
		waittest.Until(t, "a call that gives up its slot gives no signal", func() bool { return s.slots.Working() < slots })
		select {
		case r := <-answer:
			require.Fail(t, "the call must wait", "%s: %v %v", waits.method, r.answer, r.err)
		default:
		}
		require.NoError(t, s.slots.Take(t.Context(), "mallory"))
		cancel()
		<-answer
	}
}
