package app

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// fakeClock is a clock that moves only when a test calls add.
type fakeClock struct{ now atomic.Int64 }

func newFakeClock() *fakeClock {
	c := &fakeClock{}
	c.now.Store(time.Now().UnixNano())
	return c
}

func (c *fakeClock) add(d time.Duration) { c.now.Add(int64(d)) }

// install changes the options of a server so that it uses the clock.
func (c *fakeClock) install(o *Options) {
	core := o.Core
	o.Core = func(s *state.Config) {
		core(s)
		s.Now = func() time.Time { return time.Unix(0, c.now.Load()) }
	}
}

// TestRequestRates sends too many requests of one principal. Each face must refuse them with the same details, and must
// not refuse requests of other principals.
func TestRequestRates(t *testing.T) {
	t.Parallel()
	clock := newFakeClock()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "bob": {}}, Limits: fleet.Limits{RequestsPerSecond: 9}, Options: clock.install,
	})
	list := func(face, caller string) *apiError { return f.call(t, face, "list_agents", caller, nil).err }
	require.Nil(t, list("mcp", "alice"), "the first call begins the MCP session")
	clock.add(time.Second)
	for range 3 {
		for _, face := range []string{"grpc", "rest", "mcp"} {
			require.Nil(t, list(face, "alice"))
		}
	}
	for range 2 {
		for _, face := range []string{"grpc", "rest", "mcp"} {
			e := list(face, "alice")
			require.NotNil(t, e, face)
			require.Equal(t, "LIMIT_REACHED", e.Reason)
			require.Equal(t, "you may send 9 requests a second: wait a moment and send fewer, or ask the operator to raise limits.requests_per_second", e.Message)
			require.Equal(t, map[string]any{"limit": "limits.requests_per_second", "used": "9", "max": "9", "retry_after_seconds": json.Number("1")}, e.Details)
		}
	}
	require.Nil(t, list("rest", "bob"), "requests of other principals must not be refused")

	// A message that does not call a tool is refused with the protocol's own error.
	body := f.checkRequestsRefused(t)
	var answer struct {
		ID    int
		Error struct{ Data apiError }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	require.Equal(t, 7, answer.ID)
	require.Equal(t, "LIMIT_REACHED", answer.Error.Data.Reason)
	require.InDelta(t, 1, answer.Error.Data.Details["retry_after_seconds"], 0)

	clock.add(time.Second / 8)
	require.Nil(t, list("rest", "alice"))
	require.NotNil(t, list("grpc", "alice"))
}

// TestRequestRatesOfAProject sends too many requests about the agents of a project. Each face must refuse them, and
// calls that do not concern the project must succeed.
func TestRequestRatesOfAProject(t *testing.T) {
	t.Parallel()
	clock := newFakeClock()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}}, Limits: fleet.Limits{Projects: map[string]fleet.ProjectLimits{"Setup": {RequestsPerSecond: 4}}}, Options: clock.install,
	})
	send := func(face, method string, args map[string]any) *apiError {
		return f.call(t, face, method, "alice", args).err
	}
	require.Nil(t, send("grpc", "create_agent", map[string]any{"name": "papi", "project": "Setup", "spec": "s"}))
	clock.add(time.Second)
	start := map[string]any{"agent_name": "papi", "task_description": "listen"}
	require.Nil(t, send("rest", "start_agent_task", start))
	for range 3 {
		require.Nil(t, send("mcp", "show_agent", map[string]any{"agent_name": "papi"}))
	}
	for _, face := range []string{"grpc", "rest", "mcp"} {
		for _, method := range []string{"show_agent", "start_agent_task", "create_agent"} {
			args := map[string]map[string]any{"show_agent": {"agent_name": "papi"}, "start_agent_task": start, "create_agent": {"name": "sony", "project": "Setup", "spec": "s"}}[method]
			e := send(face, method, args)
			require.NotNil(t, e, method)
			require.Equal(t, "LIMIT_REACHED", e.Reason, "%s over %s: %s", method, face, e.Message)
			require.Equal(t, map[string]any{"limit": "limits.projects.Setup.requests_per_second", "used": "4", "max": "4", "retry_after_seconds": json.Number("1")}, e.Details)
		}
		require.Nil(t, send(face, "list_agents", nil))
	}
	clock.add(time.Second)
	require.Nil(t, send("grpc", "show_agent", map[string]any{"agent_name": "papi"}))
}

// checkRequestsRefused checks that REST and MCP refuse alice's requests with Retry-After: 1, and returns the answer to
// tools/list.
func (f *testFleet) checkRequestsRefused(t *testing.T) (answer string) {
	t.Helper()
	for _, request := range [][2]string{{"/v1/agents", `{"name":"papi","project":"Setup","spec":"s"}`}, {"/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`}} {
		resp, body := f.post(t, request[0], f.authorization("alice"), request[1])
		require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
		require.Equal(t, "1", resp.Header.Get("Retry-After"))
		answer = body
	}
	return answer
}

// TestRequestRatesOfReplicas checks that two servers together allow as many requests as one server, and that each of them allows
// half as many.
func TestRequestRatesOfReplicas(t *testing.T) {
	t.Parallel()
	clock := newFakeClock()
	one, two := newTestReplicas(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}, Limits: fleet.Limits{RequestsPerSecond: 10}, Options: clock.install})
	allowed := func(servers ...*testFleet) (n int) {
		clock.add(5 * time.Second)
		for range 100 {
			for _, f := range servers {
				if f.call(t, "rest", "list_agents", "alice", nil).err == nil {
					n++
				}
			}
		}
		return n
	}
	for _, f := range []*testFleet{one, two} { // otherwise each server would allow the whole limit
		_, err := f.shareOnce(t.Context())
		require.NoError(t, err)
	}
	require.Equal(t, 10, allowed(one, two))
	require.Equal(t, 5, allowed(one), "each server has half of the limit")
}
