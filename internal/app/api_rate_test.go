package app

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/state"
	"fleet/internal/waittest"
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
// not refuse other principals.
func TestRequestRates(t *testing.T) {
	t.Parallel()
	clock := newFakeClock()
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "bob": {}}, Limits: fleet.Limits{RequestsPerSecond: 9}, Options: clock.install,
	})
	list := func(face, by string) *apiError { return f.call(t, face, "list_agents", by, nil).err }
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
	require.Nil(t, list("rest", "bob"), "other principals must not be refused")

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

// TestInventedMethods calls methods that do not exist, with names that are not UTF-8: with a token, more often than the
// limit allows, and without one. The server must survive, and the names must reach neither the metrics nor the audit log.
func TestInventedMethods(t *testing.T) {
	t.Parallel()
	const name = "/invented/\xff"
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}, Limits: fleet.Limits{RequestsPerSecond: 3}, Options: newFakeClock().install,
	})
	seen := map[codes.Code]int{}
	for _, by := range []string{"alice", "not-a-token"} {
		for range 10 {
			err := f.conn.Invoke(f.as(t.Context(), by), name, &fleetv1.ListAgentsRequest{}, &fleetv1.ListAgentsResponse{})
			seen[status.Code(err)]++
		}
	}
	require.Equal(t, map[codes.Code]int{codes.Unimplemented: 3, codes.ResourceExhausted: 7, codes.Unauthenticated: 10}, seen)
	r := f.call(t, "grpc", "list_audit", "root", nil)
	require.Nil(t, r.err)
	require.Contains(t, fmt.Sprint(r.answer), "unknown")
	require.NotContains(t, fmt.Sprint(r.answer), "invented")
	_, metrics := f.get(t, f.url("/metrics"), f.authorization("root"))
	require.Contains(t, metrics, `method="unknown"`)
	require.NotContains(t, metrics, "invented")
}

// TestOpenCalls opens as many streams as a principal may have. Until a stream ends, other calls of the principal must be
// refused, and calls of other principals must not.
func TestOpenCalls(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bob": {}}, Limits: fleet.Limits{OpenCalls: 2}})
	client := fleetv1.NewFleetServiceClient(f.conn)
	_, err := f.mcp(t.Context(), "alice", toolsetOf(methods["list_agents"])) // it connects before the limit is reached
	require.NoError(t, err)
	var end context.CancelFunc
	for range 2 {
		var ctx context.Context
		ctx, end = context.WithCancel(f.as(t.Context(), "alice"))
		defer end()
		_, err := client.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Follow: true})
		require.NoError(t, err)
	}
	lists := func() bool {
		_, err := client.ListAgents(f.as(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
		return err == nil
	}
	waittest.Until(t, "a stream without events sends nothing", func() bool { return !lists() })
	for _, face := range []string{"grpc", "rest", "mcp"} {
		r := f.call(t, face, "list_agents", "alice", nil)
		require.NotNil(t, r.err, face)
		require.Equal(t, string(fleet.ReasonLimitReached), r.err.Reason, face)
		require.Equal(t, "limits.open_calls", r.err.Details["limit"], face)
	}
	_, err = client.ListAgents(f.as(t.Context(), "bob"), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
	end()
	waittest.Until(t, "the server learns by itself that a client has cancelled", lists)
}

// TestCompressedMessages sends a small message that would become 20 MB. The server must refuse it before it knows the
// caller.
func TestCompressedMessages(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	r := &fleetv1.CreateAgentRequest{Name: strings.Repeat("a", 20<<20)}
	for method, ctx := range map[string]context.Context{
		fleetv1.HealthService_CheckHealth_FullMethodName: t.Context(),
		fleetv1.FleetService_CreateAgent_FullMethodName:  f.as(t.Context(), "alice"),
	} {
		err := f.conn.Invoke(ctx, method, r, &fleetv1.CreateAgentResponse{}, grpc.UseCompressor(gzip.Name))
		require.ErrorContains(t, err, "send them without compression", method)
	}
}

// TestCompressedAnswers asks for compressed answers. The answers must be uncompressed, because gRPC reports when it has released a
// buffer only for those. The requests are empty, because the server refuses compressed requests, and gRPC does not compress empty
// messages.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	var answers encodings
	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(&answers))
	require.NoError(t, err)
	defer conn.Close()
	client := fleetv1.NewFleetServiceClient(conn)
	_, err = client.ListAgents(f.as(t.Context(), "alice"), &fleetv1.ListAgentsRequest{}, grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	events, err := client.WatchFleet(f.as(t.Context(), "alice"), &fleetv1.WatchFleetRequest{}, grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	_, err = events.Header()
	require.NoError(t, err)
	require.Equal(t, []string{encoding.Identity, encoding.Identity}, answers.list())
}

// encodings is a stats.Handler that records how the answers to a client are compressed.
type encodings struct {
	mu    sync.Mutex
	names []string
}

func (e *encodings) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.names
}

func (e *encodings) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.names = append(e.names, h.Compression)
	}
}

func (*encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*encodings) HandleConn(context.Context, stats.ConnStats)                       {}

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

// TestRequestRatesOfReplicas checks that two servers together allow as many requests as one server, and each of them half.
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
	require.Equal(t, 5, allowed(one), "each server has an even part")
}
