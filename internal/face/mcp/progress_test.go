package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/mcp"
	"fleet/internal/waittest"
)

const (
	// calls is the number of calls whose progress a test checks.
	calls = 100
	// eventsOfCall is the number of events that the stub logs for a call of create_agent, the last one just before it answers.
	eventsOfCall = 10
)

// checkProgress checks that the call that created the agent has all its progress, in order, and a result.
func checkProgress(t *testing.T, a rpcResponse, name string) {
	t.Helper()
	require.Len(t, a.progress, eventsOfCall, name)
	for i, p := range a.progress {
		require.Equal(t, "token-"+name, p.Params.Token)
		require.InDelta(t, i+1, p.Params.Progress, 0)
		require.Equal(t, fmt.Sprintf("step %d of %s", i+1, name), p.Params.Message)
	}
	require.False(t, a.result(t).IsError, a.body)
}

func TestNoProgressIsLostOverHTTP(t *testing.T) {
	t.Parallel()
	for _, session := range []bool{false, true} {
		ts := serve(t, newStub(), mcp.Config{})
		var headers []string
		if session { // one session for all calls; mcp-go would let them share one channel
			headers = []string{"Mcp-Session-Id", post(t, ts.URL+"/mcp", initialize).header.Get("Mcp-Session-Id")}
		}
		answers := make([]rpcResponse, calls)
		g, ctx := errgroup.WithContext(t.Context())
		g.SetLimit(16)
		for i := range calls {
			g.Go(func() (err error) {
				name := fmt.Sprintf("a%d", i)
				answers[i], err = tryPost(ctx, ts.URL+"/mcp", call(i, "create_agent", `{"name":"`+name+`","project":"p","spec":"s"}`, "token-"+name), headers...)
				return err
			})
		}
		require.NoError(t, g.Wait())
		for i, a := range answers {
			checkProgress(t, a, fmt.Sprintf("a%d", i))
		}
	}
}

func TestNoProgressIsLostOverStdio(t *testing.T) {
	t.Parallel()
	var in strings.Builder
	for i := range calls {
		name := fmt.Sprintf("a%d", i)
		in.WriteString(call(name, "create_agent", `{"name":"`+name+`","project":"p","spec":"s"}`, "token-"+name) + "\n")
	}
	out, err := runStdio(t, newStub(), in.String())
	require.NoError(t, err)
	answers := map[string]*rpcResponse{}
	for i := range calls {
		answers[fmt.Sprintf("a%d", i)] = &rpcResponse{}
	}
	for l := range strings.Lines(out) {
		name := ""
		if _, after, ok := strings.Cut(l, `"progressToken":"token-`); ok {
			name, _, _ = strings.Cut(after, `"`)
		} else if _, after, ok := strings.Cut(l, `"id":"`); ok {
			name, _, _ = strings.Cut(after, `"`)
		}
		require.Contains(t, answers, name, l)
		require.NoError(t, answers[name].readMessage(l))
	}
	for name, a := range answers {
		checkProgress(t, *a, name)
	}
}

// runStdio serves a client whose whole input is in, over stdio, and returns what the client receives.
func runStdio(t *testing.T, s fleetv1.FleetServiceServer, in string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := mcp.Stdio(t.Context(), connTo(s), mcp.Config{MaxSilence: waittest.Limit}, strings.NewReader(in), &out)
	return out.String(), err
}

func TestStreamBecomesProgressAndResult(t *testing.T) {
	t.Parallel()
	s := newStub()
	for i := range 1000 {
		s.logEvent("papi", fmt.Sprintf("line %d", i+1))
	}
	ts := serve(t, s, mcp.Config{MaxResult: 1 << 20})
	a := post(t, ts.URL+"/mcp", call(1, "watch_fleet", `{"follow":true,"max_events":1000}`, "t"))
	require.Len(t, a.progress, 1000)
	for i, p := range a.progress {
		require.Equal(t, fmt.Sprintf("line %d", i+1), p.Params.Message)
		require.InDelta(t, i+1, p.Params.Progress, 0)
	}
	got := string(a.result(t).StructuredContent)
	require.Equal(t, 1000, strings.Count(got, `"agent_changed"`))
	require.True(t, strings.HasSuffix(got, `"cursor":"1000"}`), got[len(got)-100:])
}

func TestStreamWithoutProgress(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.logEvent("papi", "a")
	s.logEvent("papi", "")
	a := post(t, serve(t, s, mcp.Config{}).URL+"/mcp", call(1, "watch_fleet", `{"cursor":""}`, ""))
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.Empty(t, a.progress)
	require.JSONEq(t, `{"events":[
		{"cursor":"1","time":"2025-10-29T10:00:00Z","type":"agent_changed","agent_name":"papi","owner":"","task_id":"","text":"a","status":""},
		{"cursor":"2","time":"2025-10-29T10:00:00Z","type":"agent_changed","agent_name":"papi","owner":"","task_id":"","text":"","status":""}
	],"cursor":"2"}`, string(a.result(t).StructuredContent))
}

func TestClientWithoutEventStream(t *testing.T) {
	t.Parallel()
	ts := serve(t, newStub(), mcp.Config{})
	a := post(t, ts.URL+"/mcp", call(1, "create_agent", `{"name":"papi","project":"p","spec":"s"}`, "t"), "Accept", "application/json")
	require.Equal(t, "application/json", a.header.Get("Content-Type"))
	require.False(t, a.result(t).IsError)
}

func TestEventsWithoutTextAreNamed(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.logEvent("papi", "")
	a := post(t, serve(t, s, mcp.Config{}).URL+"/mcp", call(1, "watch_fleet", `{}`, "t"))
	require.Len(t, a.progress, 1)
	require.Equal(t, "agent changed", a.progress[0].Params.Message)
}

func TestACallWithoutAnAgentDoesNotFollowTheFleet(t *testing.T) {
	t.Parallel()
	a := post(t, serve(t, newStub(), mcp.Config{}).URL+"/mcp", call(1, "create_agent", `{"project":"p","spec":"s"}`, "t"))
	require.Empty(t, a.progress)
	require.False(t, a.result(t).IsError)
}
