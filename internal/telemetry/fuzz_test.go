package telemetry_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
	"fleet/internal/telemetry"
)

// FuzzTraceparent checks that any trace context from a caller or from the store gives a valid trace or no trace.
func FuzzTraceparent(f *testing.F) {
	f.Add(callerTraceparent, "a=b,c@d=e")
	f.Add("00-00000000000000000000000000000000-b7ad6b7169203331-01", "=")
	f.Add("ff-", "\x00")
	valid := regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]$`)
	tel := telemetry.New("v1")
	require.NoError(f, tel.EnableTracing(f.Context(), &keepingExporter{}, ""))
	f.Fuzz(func(t *testing.T, traceparent, tracestate string) {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{"traceparent": {traceparent}, "tracestate": {tracestate}})
		ctx = tel.CallBegan(ctx, "/fleet.v1.FleetService/StartAgentTask", "grpc")
		if got := fleet.TraceFrom(ctx); got != "" { // the caller can ask not to be traced
			require.Regexp(t, valid, got)
		}
		tel.CallEnded(ctx, "/fleet.v1.FleetService/StartAgentTask", "grpc", false, codes.OK, 0)
		_, end := tel.StartSpan(t.Context(), "task.dispatch", &fleet.Agent{}, &fleet.Task{Trace: traceparent})
		end(nil)
	})
}
