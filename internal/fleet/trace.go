package fleet

import (
	"context"
)

type traceKey struct{}

// WithTrace returns a context whose call belongs to the trace: a W3C traceparent, which names the call in it. What the
// call starts keeps it, so that what is done later, also by another server, belongs to the same trace.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// TraceFrom returns the traceparent of the context; empty if its call is not traced.
func TraceFrom(ctx context.Context) string {
	s, _ := ctx.Value(traceKey{}).(string)
	return s
}
