package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/telemetry"
	"fleet/internal/waittest"
)

// A trace that a caller has begun, and its current span.
const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	traceparent  = "00-" + callersTrace + "-" + callersSpan + "-01"
)

// spanExporter is an exporter that keeps the spans of a server. Unlike the exporter of tracetest, it keeps them after the
// server has ended.
type spanExporter struct {
	mu  sync.Mutex
	all tracetest.SpanStubs
}

func (s *spanExporter) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

func (s *spanExporter) Shutdown(context.Context) error { return nil }

// exporter returns s. It is for Options.Spans.
func (s *spanExporter) exporter(context.Context) (trace.SpanExporter, error) { return s, nil }

// runTask starts a server, calls start, which starts a task, and waits for the end of the task. Then it closes the
// server and returns the spans.
func runTask(t *testing.T, log io.Writer, start func(f *testFleet)) tracetest.SpanStubs {
	t.Helper()
	exporter := &spanExporter{}
	f := newTestFleet(t, fleetConfig{
		Tokens:  map[string]tokenConfig{"alice": {}},
		Options: func(o *Options) { o.Spans, o.Log = exporter.exporter, log }, Config: func(c *Config) { c.LogFormat, c.LogLevel = "json", "debug" },
	}, step{Agent: "papi", Caller: "alice"})
	f.telemetry.FlushTimeout = waittest.Limit
	start(f)
	c := fleetv1.NewFleetServiceClient(f.conn)
	list, err := c.ListTasks(f.authContext(t.Context(), "alice"), &fleetv1.ListTasksRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetTasks(), 1)
	w, err := c.WaitTasks(f.authContext(t.Context(), "alice"), &fleetv1.WaitTasksRequest{TaskIds: []string{list.GetTasks()[0].GetId()}})
	require.NoError(t, err)
	require.True(t, w.GetDone())
	require.NoError(t, f.stop())
	return exporter.all
}

// requireConnected fails the test unless the parent of every span of the trace is another span of the trace or the
// caller's span root. It returns the names of the spans without duplicates.
func requireConnected(t *testing.T, all tracetest.SpanStubs, traceID, root string) (names []string) {
	t.Helper()
	known := map[string]bool{root: true}
	var traceSpans tracetest.SpanStubs
	for _, s := range all {
		if s.SpanContext.TraceID().String() == traceID {
			known[s.SpanContext.SpanID().String()] = true
			traceSpans = append(traceSpans, s)
		}
	}
	for _, s := range traceSpans {
		require.Contains(t, known, s.Parent.SpanID().String(), s.Name)
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// TestTraceOfTask checks on each face that the call that starts a task and all later work for the task are one trace.
// The spans must not have texts of the task or secrets.
func TestTraceOfTask(t *testing.T) {
	t.Parallel()
	const text = "done: the secret plan"
	for face, start := range map[string]func(t *testing.T, f *testFleet){
		"rest": func(t *testing.T, f *testFleet) {
			t.Helper()
			resp, _ := f.send(t, http.MethodPost, f.url("/v1/agents/papi/tasks"), `{"task_description":"`+text+`"}`, map[string]string{"Authorization": f.authorization("alice"), "Traceparent": traceparent})
			require.Equal(t, http.StatusOK, resp.StatusCode)
		},
		"grpc": func(t *testing.T, f *testFleet) {
			t.Helper()
			ctx := metadata.AppendToOutgoingContext(f.authContext(t.Context(), "alice"), "traceparent", traceparent)
			_, err := fleetv1.NewFleetServiceClient(f.conn).StartAgentTask(ctx, &fleetv1.StartAgentTaskRequest{AgentName: "papi", TaskDescription: text})
			require.NoError(t, err)
		},
		"mcp": func(t *testing.T, f *testFleet) {
			t.Helper()
			body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"start_agent_task","arguments":{"agent_name":"papi","task_description":%q},"_meta":{"traceparent":%q}}}`, text, traceparent)
			_, answer := f.send(t, http.MethodPost, f.url("/mcp"), body, map[string]string{
				"Authorization": f.authorization("alice"), "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Traceparent": "00-11111111111111111111111111111111-2222222222222222-01", // the trace of the connection, not of the call
			})
			require.Contains(t, answer, `\"status\":\"running\"`)
		},
	} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			log := &jsonLog{}
			all := runTask(t, log, func(f *testFleet) { start(t, f) })
			names := requireConnected(t, all, callersTrace, callersSpan)
			require.Subset(t, names, []string{
				"FleetService/StartAgentTask", "store.update", "task.dispatch", "place.dispatch", "task.follow", "place.follow", "task.followed",
			})
			shown := fmt.Sprint(all)
			require.NotContains(t, shown, "secret")
			require.NotContains(t, shown, "alice")
			for _, s := range all {
				require.True(t, s.SpanContext.TraceID().String() == callersTrace || s.Name != "FleetService/StartAgentTask")
			}
			var calls []any
			for _, line := range log.linesWithMessage(t, "audit") {
				if line["method"] == "StartAgentTask" {
					calls = append(calls, line["trace_id"])
				}
			}
			require.Equal(t, []any{callersTrace}, calls, "the log line of the call must have the id of the trace")
		})
	}
}

// TestTraceOfAgent checks that the creation of an agent's workspace belongs to the trace of the call that created the
// agent.
func TestTraceOfAgent(t *testing.T) {
	t.Parallel()
	all := runTask(t, nil, func(f *testFleet) { f.startTaskREST(t, map[string]string{"Authorization": f.authorization("alice")}) })
	i := slices.IndexFunc(all, func(s tracetest.SpanStub) bool { return s.Name == "FleetService/CreateAgent" })
	require.GreaterOrEqual(t, i, 0)
	require.Subset(t, requireConnected(t, all, all[i].SpanContext.TraceID().String(), "0000000000000000"), []string{"agent.provision", "place.provision"})
}

// TestInvalidTraces checks that a call with an invalid trace context begins a new trace.
func TestInvalidTraces(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"", "00", "ff-" + callersTrace + "-" + callersSpan + "-01", "00-00000000000000000000000000000000-" + callersSpan + "-01", strings.Repeat("0", 5000), "00-" + callersTrace + "-ä-01"} {
		all := runTask(t, nil, func(f *testFleet) {
			f.startTaskREST(t, map[string]string{"Authorization": f.authorization("alice"), "Traceparent": header, "Tracestate": "\"" + header})
		})
		i := slices.IndexFunc(all, func(s tracetest.SpanStub) bool { return s.Name == "FleetService/StartAgentTask" })
		require.GreaterOrEqual(t, i, 0, header)
		require.False(t, all[i].Parent.IsValid(), header)
	}
}

// grpcCollector is a collector of traces that speaks gRPC.
type grpcCollector struct {
	collector.UnimplementedTraceServiceServer
	keys     chan []string // values of the header x-key in the requests
	received chan *collector.ExportTraceServiceRequest
}

// Export implements collector.TraceServiceServer.
func (c *grpcCollector) Export(ctx context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.keys <- metadata.ValueFromIncomingContext(ctx, "x-key")
	c.received <- r
	return &collector.ExportTraceServiceResponse{}, nil
}

// allowSlowExports makes the exporters and the library wait for a collector as long as a loaded machine may need.
func allowSlowExports(t *testing.T) {
	t.Helper()
	limit := fmt.Sprint(waittest.Limit.Milliseconds())
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", limit)
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", limit)
}

// TestOTLPOverGRPC checks that a collector that speaks gRPC receives traces.
func TestOTLPOverGRPC(t *testing.T) { //nolint:paralleltest // it sets variables
	c := &grpcCollector{keys: make(chan []string, 100), received: make(chan *collector.ExportTraceServiceRequest, 100)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-ended)
	}()
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
	allowSlowExports(t)
	f := newTestFleet(t, fleetConfig{Options: func(o *Options) { o.Spans = telemetry.NewExporter }})
	f.telemetry.FlushTimeout = waittest.Limit
	_, err = fleetv1.NewFleetServiceClient(f.conn).ListAgents(t.Context(), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
	require.NoError(t, f.stop())
	require.NotEmpty(t, c.received, "a server that ends must export its remaining spans")
	require.Equal(t, []string{"secret"}, <-c.keys)
	var names, attributes []string
	close(c.received)
	for r := range c.received {
		for _, spans := range r.GetResourceSpans() {
			for _, a := range spans.GetResource().GetAttributes() {
				attributes = append(attributes, a.GetKey()+"="+a.GetValue().GetStringValue())
			}
			for _, s := range spans.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					names = append(names, span.GetName())
				}
			}
		}
	}
	require.Contains(t, attributes, "service.name=fleet")
	require.Contains(t, names, "FleetService/ListAgents")
}

// TestOTLP checks that a server exports traces to the collector in the standard environment variables, and that it ends
// even if the collector hangs.
func TestOTLP(t *testing.T) { //nolint:paralleltest // it sets variables
	received := make(chan *collector.ExportTraceServiceRequest, 100)
	hang := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if r.URL.Path == "/hang/v1/traces" {
			<-hang
			return
		}
		m := &collector.ExportTraceServiceRequest{}
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("X-Key") != "secret" || proto.Unmarshal(body, m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		received <- m
	}))
	defer c.Close()
	defer close(hang)

	run := func(flushTimeout time.Duration) {
		f := newTestFleet(t, fleetConfig{Options: func(o *Options) { o.Spans = telemetry.NewExporter }})
		f.telemetry.FlushTimeout = flushTimeout
		_, err := fleetv1.NewFleetServiceClient(f.conn).ListAgents(t.Context(), &fleetv1.ListAgentsRequest{})
		require.NoError(t, err)
		require.NoError(t, f.stop())
	}
	run(waittest.Limit)
	require.Empty(t, received, "without the variables, no trace must be exported")

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=secret")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	allowSlowExports(t)
	run(waittest.Limit)
	require.NotEmpty(t, received)
	var names []string
	for len(received) > 0 {
		m := <-received
		var attributes []string
		for _, a := range m.GetResourceSpans()[0].GetResource().GetAttributes() {
			attributes = append(attributes, a.GetKey()+"="+a.GetValue().GetStringValue())
		}
		require.Subset(t, attributes, []string{"service.name=fleet", "deployment.environment.name=test"})
		for _, s := range m.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans() {
			names = append(names, s.GetName())
		}
	}
	require.Contains(t, names, "FleetService/ListAgents")

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL+"/hang")
	run(time.Second)

	t.Setenv("OTEL_TRACES_EXPORTER", "zipkin")
	_, err := telemetry.NewExporter(t.Context())
	require.ErrorContains(t, err, "it must be otlp or none")
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	e, err := telemetry.NewExporter(t.Context())
	require.NoError(t, err)
	require.Nil(t, e)
}
