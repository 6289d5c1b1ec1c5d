package rest

import (
	"encoding/json"
	"net/http"
	"strconv"

	"google.golang.org/grpc/metadata"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// serveAlive answers 200, because the process serves HTTP.
func serveAlive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, []byte(`{"status":"alive"}`+"\n"))
}

// serveReady answers 200 if the health service reports that the server is ready, and 503 otherwise. Both responses list the
// degraded parts, unless the health service itself fails.
func (f *face) serveReady(w http.ResponseWriter, r *http.Request) {
	ctx := metadata.AppendToOutgoingContext(r.Context(), "fleet-face", "rest")
	answer, err := f.health.CheckHealth(ctx, &fleetv1.CheckHealthRequest{})
	var body []byte
	if err == nil {
		body, err = wire.Marshal(answer)
	}
	if err == nil && answer.GetStatus() == fleetv1.CheckHealthResponse_ready {
		writeJSON(w, append(body, '\n'))
		return
	}
	details := map[string]any{"retry_after_seconds": 1}
	why := "try again in a moment"
	if err == nil {
		var health struct{ Degraded json.RawMessage }
		_ = json.Unmarshal(body, &health) // cannot fail: package wire has written the body
		details["degraded"] = health.Degraded
		if parts := answer.GetDegraded(); len(parts) > 0 {
			why = parts[0].GetPart() + ": " + parts[0].GetReason()
		}
	}
	w.Header().Set("Retry-After", "1")
	wire.WriteErrorObject(w, http.StatusServiceUnavailable, wire.Error{
		Reason:  "BACKEND_UNAVAILABLE",
		Message: "the server is not ready: " + why,
		Details: details,
	})
}

// writeJSON answers 200 with the JSON. It ignores a write error, which means that the client has disconnected.
func writeJSON(w http.ResponseWriter, data []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}
