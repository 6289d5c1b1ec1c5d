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

// takeSlots takes all slots of a server whose Limits.CallsPerCPU is 1, and returns the number of slots.
func (f *testFleet) takeSlots(t *testing.T) (slots int) {
	t.Helper()
	slots = runtime.GOMAXPROCS(0)
	for range slots {
		require.NoError(t, f.slots.Take(t.Context(), "mallory"))
	}
	return slots
}

// callInBackground makes a call on the face in the background, and returns a channel that receives the answer. If the face returns
// an error, for example because ctx has ended, the channel is closed without an answer.
func (f *testFleet) callInBackground(ctx context.Context, face string, c call) <-chan reply {
	answers := make(chan reply, 1)
	go func() {
		defer close(answers)
		if r, err := faces[face](f, ctx, c); err == nil {
			answers <- r
		}
	}()
	return answers
}

// awaitWaitingCalls waits until n calls wait for a slot.
func (f *testFleet) awaitWaitingCalls(t *testing.T, n int) {
	t.Helper()
	waittest.Until(t, "a waiting call gives no signal", func() bool { return f.slots.Waiting() == n })
}

// TestCallsWaitForTheirTurn calls a server on all faces while all of its slots for calls are taken. One call of a principal must
// wait, and must be answered when a slot is free. Further calls of the principal must be refused. Requests for health and metrics
// must not wait.
func TestCallsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "bob": {}, "root": {Admin: true}}, Limits: fleet.Limits{CallsPerCPU: 1, WaitingCalls: 1},
	})
	list := call{method: methods["list_agents"], args: map[string]any{}, caller: "alice"}
	for _, face := range []string{"grpc", "rest", "mcp"} { // connects, and begins a session
		require.Nil(t, f.call(t, face, "list_agents", "alice", nil).err)
	}
	slots := f.takeSlots(t)
	for _, face := range []string{"grpc", "rest", "mcp"} {
		waiting := f.callInBackground(t.Context(), face, list)
		f.awaitWaitingCalls(t, 1)
		r := f.call(t, face, "list_agents", "alice", nil)
		require.NotNil(t, r.err, face)
		require.Equal(t, "LIMIT_REACHED", r.err.Reason)
		require.Equal(t, "the server is busy, and you have 1 waiting calls, which is the limit: make fewer at the same time, or ask the operator to raise limits.waiting_calls", r.err.Message)
		require.Equal(t, map[string]any{"limit": "limits.waiting_calls", "used": "1", "max": "1", "retry_after_seconds": json.Number("1")}, r.err.Details)

		f.slots.Release()
		answer := <-waiting
		require.Nil(t, answer.err)
		require.NotNil(t, answer.answer, face)
		require.NoError(t, f.slots.Take(t.Context(), "mallory"))
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancelledCall := f.callInBackground(ctx, "grpc", list)
	f.awaitWaitingCalls(t, 1)
	f.checkRequestsRefused(t)
	resp, _ := f.post(t, "/mcp", f.authorization("alice"), `{"jsonrpc":"2.0","id":8,"method":"ping"}`)
	require.Equal(t, http.StatusOK, resp.StatusCode)

	getOK := func(path, caller string) string {
		status, body := f.get(t, f.url(path), caller)
		require.Equal(t, http.StatusOK, status, body)
		return body
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		getOK(path, "")
	}
	h, err := grpc_health_v1.NewHealthClient(f.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, h.GetStatus())
	require.Contains(t, getOK("/metrics", f.authorization("root")), "\nfleet_calls_waiting 1\n")

	cancel()
	<-cancelledCall
	f.awaitWaitingCalls(t, 0)
	for range slots {
		f.slots.Release()
	}
	require.Contains(t, getOK("/metrics", f.authorization("root")), "\nfleet_call_wait_seconds_count 4\n")
	require.NotContains(t, getOK("/v1/agents", f.authorization("alice")), "papi", "a refused call must have no effect")
}

// TestWaitingCallsHoldNoSlot makes each kind of call that waits for an event or another server. While the call waits,
// it must not hold a slot.
func TestWaitingCallsHoldNoSlot(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Limits: fleet.Limits{CallsPerCPU: 1}},
		step{Agent: "papi", Caller: "alice"},
		step{Agent: "sony", Caller: "alice"},
		step{Task: map[string]any{"agent_name": "papi", "task_description": "wait gate"}, Caller: "alice", Save: map[string]string{"task": "task.id"}},
		step{Call: "create_agent_session", With: map[string]any{"agent": "echo"}, Caller: "alice", Save: map[string]string{"session": "agent_session_id"}},
		step{Place: map[string]any{"hold_sends": true, "hold_builds": true}},
	)
	slots := f.takeSlots(t)
	for _, tc := range []struct {
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
		c, err := f.callOf(tc.method, "alice", tc.with)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		answer := f.callInBackground(ctx, "grpc", c)
		f.awaitWaitingCalls(t, 1)
		f.slots.Release()
		waittest.Until(t, "a call that gives up its slot gives no signal", func() bool { return f.slots.Working() < slots })
		select {
		case r := <-answer:
			require.Fail(t, "the call must wait", "%s: %v %v", tc.method, r.answer, r.err)
		default:
		}
		require.NoError(t, f.slots.Take(t.Context(), "mallory"))
		cancel()
		<-answer
	}
}
