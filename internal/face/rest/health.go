package rest

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"fleet/internal/face/wire"
)

// patienceOfProbes is how long the health service may take to answer a probe.
const patienceOfProbes = 2 * time.Second

// alive answers whether the process serves HTTP: it does.
func alive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []byte(`{"status":"alive"}`+"\n"))
}

// ready answers whether the services behind the face can do their work, as the gRPC health service says.
func (f *face) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), patienceOfProbes)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "fleet-face", "rest")
	answer, err := f.health.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	if err == nil && answer.GetStatus() == grpc_health_v1.HealthCheckResponse_SERVING {
		writeJSON(w, http.StatusOK, []byte(`{"status":"ready"}`+"\n"))
		return
	}
	w.Header().Set("Retry-After", "1")
	writeObject(w, http.StatusServiceUnavailable, wire.Error{
		Reason:  "BACKEND_UNAVAILABLE",
		Message: "The server is not ready; try again in a moment.",
		Details: map[string]any{"retry_after_seconds": 1},
	})
}
