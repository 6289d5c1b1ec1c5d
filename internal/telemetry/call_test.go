package telemetry_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"fleet/internal/telemetry"
)

// BenchmarkCall measures the cost that telemetry adds to every call, without and with tracing.
func BenchmarkCall(b *testing.B) {
	call := func(b *testing.B, tel *telemetry.Telemetry) {
		b.Helper()
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				ctx := tel.CallBegan(b.Context(), "/fleet.v1.FleetService/ListAgents", "grpc")
				tel.CallEnded(ctx, "/fleet.v1.FleetService/ListAgents", "grpc", false, codes.OK, time.Millisecond)
			}
		})
	}
	b.Run("untraced", func(b *testing.B) { call(b, telemetry.New("v1")) })
	b.Run("traced", func(b *testing.B) {
		tel := telemetry.New("v1")
		if err := tel.Trace(b.Context(), &keepingExporter{}, ""); err != nil {
			b.Fatal(err)
		}
		call(b, tel)
	})
}
