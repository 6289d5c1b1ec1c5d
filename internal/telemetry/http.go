package telemetry

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns a transport over base. It adds the trace headers to each request that belongs to traced work, and
// begins a span for the request, except during runner.Follow. The span has no path and no query, because they may contain
// data that operators should not see. Transport must be called after EnableTracing: without tracing, it returns base.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if t.tracer == nil {
		return base
	}
	return transport{base, t}
}

type transport struct {
	base      http.RoundTripper
	telemetry *Telemetry
}

// RoundTrip implements http.RoundTripper. The span ends when the header of the answer has arrived.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.base.RoundTrip(r)
	}
	ctx, span := t.telemetry.startChild(r.Context(), "HTTP "+r.Method, trace.SpanKindClient,
		attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Host))
	r = r.Clone(ctx)
	w3c.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := t.base.RoundTrip(r)
	if span != nil && err == nil {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	endSpan(span, err)
	return resp, err
}
