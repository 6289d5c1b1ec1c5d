package fleet

import "context"

type traceKey struct{}

// WithTrace returns a context for a traced call, which the W3C traceparent identifies. The agents and tasks that the call
// changes keep the traceparent, so that later work on them belongs to the same trace, even on another server.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// TraceFrom returns the traceparent of the context; empty if its call is not traced.
func TraceFrom(ctx context.Context) string {
	s, _ := ctx.Value(traceKey{}).(string)
	return s
}
