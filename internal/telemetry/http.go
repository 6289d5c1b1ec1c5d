package telemetry

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns a transport that traces requests that belong to a traced call, and tells the server about the trace.
// A span has no path and no query, because these may contain what operators should not see.
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

// RoundTrip implements http.RoundTripper. The span ends with the header of the answer.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.base.RoundTrip(r)
	}
	ctx, span := t.telemetry.child(r.Context(), "HTTP "+r.Method, trace.SpanKindClient,
		attribute.String("http.request.method", r.Method), attribute.String("server.address", r.URL.Host))
	r = r.Clone(ctx)
	w3c.Inject(ctx, propagation.HeaderCarrier(r.Header))
	resp, err := t.base.RoundTrip(r)
	if span != nil && err == nil {
		span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	end(span, err)
	return resp, err
}
