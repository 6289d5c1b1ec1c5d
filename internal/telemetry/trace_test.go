package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/telemetry"
	"fleet/internal/waittest"
)

// callerTraceparent is the traceparent of a caller that asks to be traced.
const callerTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// keepingExporter is an exporter that keeps its spans after its shutdown. The exporter of tracetest drops them.
type keepingExporter struct{ spans tracetest.SpanStubs }

func (k *keepingExporter) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	k.spans = append(k.spans, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

func (k *keepingExporter) Shutdown(context.Context) error { return nil }

// newTracedTelemetry returns telemetry with tracing, and a function that closes the telemetry and returns its spans by name.
func newTracedTelemetry(t *testing.T) (*telemetry.Telemetry, func() map[string]tracetest.SpanStub) {
	t.Helper()
	tel, k := telemetry.New("v1"), &keepingExporter{}
	require.NoError(t, tel.EnableTracing(t.Context(), k, "one"))
	tel.FlushTimeout = waittest.Limit
	return tel, func() map[string]tracetest.SpanStub {
		require.NoError(t, tel.Close())
		byName := map[string]tracetest.SpanStub{}
		for _, s := range k.spans {
			require.NotContains(t, byName, s.Name)
			byName[s.Name] = s
		}
		return byName
	}
}

// TestTransport checks that a request of traced work has a span without path and query, and that it sends the trace
// header to the server.
func TestTransport(t *testing.T) {
	t.Parallel()
	headers := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusTeapot)
	}))
	defer s.Close()
	tel, stop := newTracedTelemetry(t)
	send := func(ctx context.Context) string {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/secret?secret", nil)
		require.NoError(t, err)
		resp, err := tel.Transport(http.DefaultTransport).RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Empty(t, r.Header, "the caller's request must not be changed")
		return <-headers
	}
	require.Empty(t, send(t.Context()), "a request of untraced work must have no trace header")
	ctx, end := tel.StartSpan(t.Context(), "agent.provision", &fleet.Agent{UID: "u", Trace: callerTraceparent}, nil)
	header := send(ctx)
	end(nil)

	spans := stop()
	require.Len(t, spans, 2)
	httpSpan := spans["HTTP GET"]
	require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-"+httpSpan.SpanContext.SpanID().String()+"-01", header)
	require.Equal(t, spans["agent.provision"].SpanContext.SpanID(), httpSpan.Parent.SpanID())
	require.Equal(t, "b7ad6b7169203331", spans["agent.provision"].Parent.SpanID().String())
	for _, a := range httpSpan.Attributes {
		require.NotContains(t, a.Value.String(), "secret")
	}
}

// TestUntracedWork checks that work has spans only if a traced call has requested it, and that a span contains only the
// code of an error.
func TestUntracedWork(t *testing.T) {
	t.Parallel()
	tel, stop := newTracedTelemetry(t)
	place := tel.Place(fake.New(fake.Config{Before: func(context.Context, fake.Call) error { return errors.New("the secret plan") }}))
	_, err := place.List(t.Context())
	require.Error(t, err)
	ctx, end := tel.StartSpan(t.Context(), "agent.stop", &fleet.Agent{}, nil)
	require.Equal(t, t.Context(), ctx)
	end(nil)

	ctx, end = tel.StartSpan(t.Context(), "task.follow", &fleet.Agent{}, &fleet.Task{ID: "t", Trace: callerTraceparent})
	runner := place.Connect(fleet.Agent{UID: "u"})
	_, err = runner.Follow(ctx, fleet.Run{TaskID: "t"}, "", nil)
	require.Error(t, err)
	end(err)

	spans := stop()
	require.Len(t, spans, 2)
	require.Equal(t, trace.Status{Code: codes.Error, Description: "INTERNAL"}, spans["place.follow"].Status)
	require.Empty(t, spans["place.follow"].Events)
}

// TestLogHandler checks that log lines about traced work have the trace's ids, and that other lines do not.
func TestLogHandler(t *testing.T) {
	t.Parallel()
	tel, stop := newTracedTelemetry(t)
	var b bytes.Buffer
	log := slog.New(telemetry.LogHandler(slog.NewTextHandler(&b, nil))).With("a", 1)
	log.InfoContext(t.Context(), "without")
	require.NotContains(t, b.String(), "trace_id")
	ctx, end := tel.StartSpan(t.Context(), "agent.stop", &fleet.Agent{Trace: callerTraceparent}, nil)
	log.InfoContext(ctx, "with")
	end(nil)
	require.Contains(t, b.String(), "msg=with a=1 trace_id=0af7651916cd43dd8448eb211c80319c span_id="+stop()["agent.stop"].SpanContext.SpanID().String())
}
