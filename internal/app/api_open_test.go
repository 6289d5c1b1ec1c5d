package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/waittest"
)

// TestCallsWithoutRequests sends only the headers of a call. The call must count as open, and must not be executed if the
// token is revoked before the request arrives.
func TestCallsWithoutRequests(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"root": {Admin: true}, "alice": {Admin: true}}, Limits: fleet.Limits{OpenCalls: 1}})
	s, err := f.conn.NewStream(f.as(t.Context(), "alice"), &grpc.StreamDesc{ClientStreams: true}, fleetv1.TokenService_CreateToken_FullMethodName)
	require.NoError(t, err)
	lists := func() error {
		_, err := fleetv1.NewFleetServiceClient(f.conn).ListAgents(f.as(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
		return err
	}
	waittest.Until(t, "the headers arrive", func() bool { return status.Code(lists()) == codes.ResourceExhausted })

	// A value that metadata cannot hold must not hide a call.
	_, answer := f.post(t, "/mcp", strings.Replace(f.authorization("alice"), " ", " \t", 1), listAgentsTool)
	require.Contains(t, answer, "limits.open_calls")

	tokens := fleetv1.NewTokenServiceClient(f.conn)
	_, err = tokens.RevokeToken(f.as(t.Context(), "root"), &fleetv1.RevokeTokenRequest{Name: "alice"})
	require.NoError(t, err)
	require.Error(t, s.RecvMsg(&fleetv1.CreateTokenResponse{}), "the server must not wait for the request")
	_ = s.SendMsg(&fleetv1.CreateTokenRequest{Name: "backdoor", Admin: true}) // the stream has ended
	list, err := tokens.ListTokens(f.as(t.Context(), "root"), &fleetv1.ListTokensRequest{})
	require.NoError(t, err)
	for _, token := range list.GetTokens() {
		require.NotEqual(t, "backdoor", token.GetName())
	}
}

// TestUnreadAnswers opens downloads and does not read them. There may be only a few, and they must end when the token is
// revoked.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"root": {Admin: true}, "alice": {}, "bob": {}}})
	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20)) // otherwise the client would read on its own
	require.NoError(t, err)
	defer conn.Close()
	life := fleetv1.NewLifecycleServiceClient(conn)
	started, err := life.AgentStart(f.as(t.Context(), "alice"), &fleetv1.AgentStartRequest{Contract: "listen"})
	require.NoError(t, err)
	random := make([]byte, 8<<20)
	_, err = rand.Read(random)
	require.NoError(t, err)
	_, err = life.AppendPayload(f.as(t.Context(), "alice"), &fleetv1.AppendPayloadRequest{AgentId: started.GetAgentId(), Chunk: base64.StdEncoding.EncodeToString(random)})
	require.NoError(t, err)
	_, err = life.AgentComplete(f.as(t.Context(), "alice"), &fleetv1.AgentCompleteRequest{AgentId: started.GetAgentId(), Summary: "heard"})
	require.NoError(t, err)
	download := func(by string) error {
		s, err := life.DownloadPayload(f.as(t.Context(), by), &fleetv1.DownloadPayloadRequest{AgentId: started.GetAgentId()})
		require.NoError(t, err)
		_, err = s.Recv()
		return err
	}
	most := 0
	for err = download("alice"); err == nil; err = download("alice") {
		most++
	}
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.InDelta(t, (512-64)/(len(random)>>20), most, 5, "what is read counts 64 MiB until its size is known")
	require.Equal(t, codes.NotFound, status.Code(download("bob")), "the limit is for each principal")

	require.EqualValues(t, most, f.guard.openCalls.Load())
	_, err = fleetv1.NewTokenServiceClient(f.conn).RevokeToken(f.as(t.Context(), "root"), &fleetv1.RevokeTokenRequest{Name: "alice"})
	require.NoError(t, err)
	waittest.Until(t, "calls end although nobody reads their answers", func() bool { return f.guard.openCalls.Load() == 0 })
}

// TestInventedFace sends the metadata with which the faces in the server mark their calls. Calls that are refused before they
// begin must be in the metrics too.
func TestInventedFace(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "root": {Admin: true}}})
	ctx := metadata.AppendToOutgoingContext(f.as(t.Context(), "alice"), "fleet-face", "mcp 10.9.9.9 principal=carol")
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
