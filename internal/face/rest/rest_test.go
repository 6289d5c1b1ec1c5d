package rest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestAnswerHasTheContractsForm(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerUnary = answerWith(&fleetv1.ListAgentsResponse{
		Agents: []*fleetv1.AgentSummary{
			{
				Name: "papi", Status: fleetv1.Agent_busy, CurrentTask: wrapperspb.String("Implementing OAuth2 <b>"),
				State: fleetv1.Agent_running, CurrentTaskId: wrapperspb.String("t1"),
			},
			{Name: "sony", Status: fleetv1.Agent_idle, State: fleetv1.Agent_running},
		},
		TotalCount: 2,
		ObservedAt: timestamppb.New(time.Date(2025, 10, 29, 10, 30, 45, 0, time.UTC)),
	}, nil)
	w := serve(newTestFace(t, s, Config{}), "GET", "/v1/agents", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "private, no-cache", w.Header().Get("Cache-Control"))
	require.JSONEq(t, `{
		"agents": [
			{"name":"papi","status":"busy","current_task":"Implementing OAuth2 <b>","state":"running","role":"","project":"","current_task_id":"t1","owner":"","place":""},
			{"name":"sony","status":"idle","current_task":null,"state":"running","role":"","project":"","current_task_id":null,"owner":"","place":""}
		],
		"total_count": 2, "observed_at": "2025-10-29T10:30:45Z", "places": []}`, w.Body.String())
}

func TestMetadataOfCalls(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerUnary = answerWith(&fleetv1.ListAgentsResponse{}, nil)
	s.answerWatch = func(*fleetv1.WatchFleetRequest, watchStream) error { return nil }
	f := newTestFace(t, s, Config{})
	for _, path := range []string{"/v1/agents", "/v1/events"} {
		serve(f, "GET", path, "",
			"Authorization", "Bearer secret", "Grpc-Metadata-Fleet-Face", "mcp", "Grpc-Metadata-Authorization", "Bearer other",
			"X-Forwarded-For", "10.0.0.1", "X-Forwarded-Host", "evil", "Grpc-Timeout", "1n", "Cookie", "a=b", "User-Agent", "x", "Fleet-Face", "mcp")
		require.Equal(t, metadata.MD{"authorization": {"Bearer secret"}, "fleet-face": {"rest"}}, s.metadata)
	}
}

func TestMethodOverrideIsIgnored(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := serve(newTestFace(t, s, Config{}), "POST", "/v1/agents/papi", "a=b",
		"X-HTTP-Method-Override", "DELETE", "Content-Type", "application/x-www-form-urlencoded")
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Zero(t, s.calls)
}

func TestRetryAfterIsAHeaderToo(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerUnary = answerWith(nil, statusError(codes.Unavailable, fleetv1.ErrorReason_BACKEND_UNAVAILABLE, "Coder does not answer.",
		&errdetails.RetryInfo{RetryDelay: durationpb.New(1500 * time.Millisecond)}))
	w := serve(newTestFace(t, s, Config{}), "GET", "/v1/projects", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "2", w.Header().Get("Retry-After"))
	require.EqualValues(t, 2, readError(t, w).Details["retry_after_seconds"])
}

func TestPathIsUnescapedOnce(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/v1/agents/papi":             "papi",
		"/v1/agents/papi@alice":       "papi@alice",
		"/v1/agents/papi%40alice":     "papi@alice",
		"/v1/agents/a%2Fb":            "a/b",
		"/v1/agents/a%252Fb":          "a%2Fb",
		"/v1/agents/100%25":           "100%",
		"/v1/agents/%2541":            "%41",
		"/v1/agents/d%C3%B6ner":       "döner",
		"/v1/agents/d%C3%B6ner%20x+y": "döner x+y",
		"/v1/agents/papi:unknown":     "papi:unknown",
		"/v1/agents/..":               "..",
		"/v1/agents/%00":              "\x00",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := newStub()
			s.answerUnary = answerWith(nil, statusError(codes.NotFound, fleetv1.ErrorReason_AGENT_NOT_FOUND, "No agent."))
			w := serve(newTestFace(t, s, Config{}), "GET", path, "")
			require.Equal(t, http.StatusNotFound, w.Code)
			require.Equal(t, "AGENT_NOT_FOUND", readError(t, w).Error)
			require.Equal(t, want, s.request.(*fleetv1.ShowAgentRequest).GetAgentName())
		})
	}
}

func TestLongDescriptionReachesTheService(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerUnary = func(_ string, r proto.Message) (proto.Message, error) {
		return &fleetv1.StartAgentTaskResponse{Message: r.(*fleetv1.StartAgentTaskRequest).GetTaskDescription()}, nil
	}
	long := strings.Repeat("ü<", 10<<20/3)
	w := serve(newTestFace(t, s, Config{}), "POST", "/v1/agents/papi/tasks", `{"task_description":"`+long+`"}`)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, long, s.request.(*fleetv1.StartAgentTaskRequest).GetTaskDescription())
	require.Equal(t, "papi", s.request.(*fleetv1.StartAgentTaskRequest).GetAgentName())
	require.Greater(t, w.Body.Len(), len(long))
}

func TestBodyHasALimit(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerUnary = answerWith(&fleetv1.CreateAgentResponse{}, nil)
	f := newTestFace(t, s, Config{MaxBodyBytes: 64})
	w := serve(f, "POST", "/v1/agents", `{"name":"`+strings.Repeat("x", 64)+`"}`)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, readError(t, w).Message, "64 bytes")
	require.Zero(t, s.calls)
	require.Equal(t, http.StatusOK, serve(f, "POST", "/v1/agents", `{"name":"x","spec":"y"}`).Code)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	s := newStub()
	f := newTestFace(t, s, Config{})
	w := serve(f, "GET", "/healthz", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"status":"alive"}`, w.Body.String())

	health := &fleetv1.CheckHealthResponse{Status: fleetv1.CheckHealthResponse_ready}
	s.answerUnary = answerWith(health, nil)
	w = serve(f, "GET", "/readyz", "")
	require.Equal(t, http.StatusOK, w.Code)
	require.JSONEq(t, `{"status":"ready","degraded":[]}`, w.Body.String())
	require.Equal(t, []string{"rest"}, s.metadata.Get("fleet-face"))

	health.Degraded = []*fleetv1.DegradedPart{{Part: "coder", Since: &timestamppb.Timestamp{Seconds: 1761818445}, Reason: "it does not answer"}}
	w = serve(f, "GET", "/readyz", "")
	require.Equal(t, http.StatusOK, w.Code, "the server must still answer")
	require.JSONEq(t, `{"status":"ready","degraded":[{"part":"coder","since":"2025-10-30T10:00:45Z","reason":"it does not answer"}]}`, w.Body.String())

	health.Status = fleetv1.CheckHealthResponse_not_ready
	w = serve(f, "GET", "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	problem := readError(t, w)
	require.Equal(t, "BACKEND_UNAVAILABLE", problem.Error)
	require.Contains(t, problem.Message, "coder: it does not answer")
	require.Len(t, problem.Details["degraded"], 1)

	s.answerUnary = answerWith(nil, status.Error(codes.Unavailable, "shutting down"))
	require.Equal(t, http.StatusServiceUnavailable, serve(f, "GET", "/readyz", "").Code)
}
