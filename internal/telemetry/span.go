package telemetry

import (
	"context"
	"errors"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/code"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// w3c reads and writes the headers traceparent and tracestate.
var w3c propagation.TraceContext

// CallBegan begins the span of a call and returns the context for the call. If the metadata has trace headers, the span
// belongs to the caller's trace.
func (t *Telemetry) CallBegan(ctx context.Context, method, face string) context.Context {
	if t.tracer == nil || isUntraced(method) {
		return ctx
	}
	carrier := propagation.MapCarrier{}
	for _, key := range w3c.Fields() {
		if v := metadata.ValueFromIncomingContext(ctx, key); len(v) > 0 {
			carrier[key] = v[0]
		}
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	ctx, span := t.tracer.Start(w3c.Extract(ctx, carrier), methodLabel(method), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", name),
		attribute.String("fleet.face", faces[faceIndex(face)]),
	))
	if !span.IsRecording() {
		return ctx
	}
	out := propagation.MapCarrier{}
	w3c.Inject(ctx, out)
	return fleet.WithTrace(ctx, out["traceparent"])
}

// isUntraced reports whether the method is a health check or reflection. Calls of such methods are not traced, because
// their traces would only hide other traces.
func isUntraced(method string) bool {
	return strings.HasPrefix(method, "/grpc.") || strings.HasPrefix(method, "/fleet.v1.HealthService/")
}

// endCall ends the span that CallBegan has begun.
func (t *Telemetry) endCall(ctx context.Context, method string, status grpccodes.Code) {
	if t.tracer == nil || isUntraced(method) {
		return
	}
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.Int("rpc.grpc.status_code", int(status)))
	switch status { //nolint:exhaustive // with the other codes, the caller is at fault
	case grpccodes.Unknown, grpccodes.DeadlineExceeded, grpccodes.Unimplemented, grpccodes.Internal, grpccodes.Unavailable, grpccodes.DataLoss:
		span.SetStatus(codes.Error, code.Code(status).String())
	}
	span.End()
}

// StartSpan begins a span of work on the agent or its task, as state.Config.Span requires. It returns the context for the
// work, and a function that ends the span. If the call that requested the work was not traced, there is no span.
func (t *Telemetry) StartSpan(ctx context.Context, name string, a *fleet.Agent, task *fleet.Task) (context.Context, func(error)) {
	parent := a.Trace
	attributes := []attribute.KeyValue{attribute.String("fleet.agent.id", a.UID), attribute.String("fleet.place", a.Place)}
	if task != nil {
		parent = task.Trace
		attributes = append(attributes, attribute.String("fleet.task.id", task.ID))
	}
	if t.tracer == nil || parent == "" {
		return ctx, func(error) {}
	}
	ctx = w3c.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, func(err error) { endSpan(span, err) }
}

// startChild begins a span below the span of the context. If the context has no recorded span, startChild returns ctx and nil.
func (t *Telemetry) startChild(ctx context.Context, name string, kind trace.SpanKind, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	if t.tracer == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
}

// endSpan ends the span, which may be nil. It records only the code of an error, because the message may contain a caller's
// text.
func endSpan(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		span.SetStatus(codes.Error, errorCode(err))
	}
	span.End()
}
