package app

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// TestInventedFace sends, as a gRPC client, the metadata with which the faces in the server mark their calls. The audit log must
// still name gRPC. Calls that are refused before they begin must be in the metrics too.
func TestInventedFace(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}})
	ctx := metadata.AppendToOutgoingContext(f.authContext(t.Context(), "alice"), "fleet-face", "mcp 10.9.9.9 principal=carol")
	_, err := fleetv1.NewFleetServiceClient(f.conn).DeleteAgent(ctx, &fleetv1.DeleteAgentRequest{AgentName: "nobody"})
	require.Equal(t, codes.NotFound, status.Code(err))
	wrong := metadata.AppendToOutgoingContext(context.Background(), "fleet-face", "mcp", "authorization", "Bearer wrong")
	_, err = fleetv1.NewFleetServiceClient(f.conn).ListAgents(wrong, &fleetv1.ListAgentsRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	lines, _, err := f.service.ListAudit(t.Context(), service.ListAuditRequest{})
	require.NoError(t, err)
	require.Len(t, lines, 2)
	for _, line := range lines {
		require.Equal(t, "grpc", line.Face)
	}
	code, _ := f.get(t, f.url("/v1/agents"), "Bearer wrong")
	require.Equal(t, http.StatusUnauthorized, code)
	_, metrics := f.get(t, f.url("/metrics"), f.authorization("root"))
	for _, face := range []string{"grpc", "rest"} {
		require.Contains(t, metrics, `fleet_calls_total{code="UNAUTHENTICATED",face="`+face+`",method="FleetService/ListAgents"} 1`)
	}
}

// TestInventedMethods calls a method that does not exist, and whose name is not UTF-8: with a token, more often than the limit
// allows, and with an unknown token. The server must survive, and the name must reach neither the metrics nor the audit log.
func TestInventedMethods(t *testing.T) {
	t.Parallel()
	const name = "/invented/\xff"
	f := newTestFleet(t, fleetConfig{
		Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}, Limits: fleet.Limits{RequestsPerSecond: 3}, Options: newFakeClock().install,
	})
	counts := map[codes.Code]int{}
	for _, caller := range []string{"alice", "not-a-token"} {
		for range 10 {
			err := f.conn.Invoke(f.authContext(t.Context(), caller), name, &fleetv1.ListAgentsRequest{}, &fleetv1.ListAgentsResponse{})
			counts[status.Code(err)]++
		}
	}
	require.Equal(t, map[codes.Code]int{codes.Unimplemented: 3, codes.ResourceExhausted: 7, codes.Unauthenticated: 10}, counts)
	r := f.call(t, "grpc", "list_audit", "root", nil)
	require.Nil(t, r.err)
	require.Contains(t, fmt.Sprint(r.answer), "unknown")
	require.NotContains(t, fmt.Sprint(r.answer), "invented")
	_, metrics := f.get(t, f.url("/metrics"), f.authorization("root"))
	require.Contains(t, metrics, `method="unknown"`)
	require.NotContains(t, metrics, "invented")
}
