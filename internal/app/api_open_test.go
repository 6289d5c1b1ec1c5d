package app

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestCallsWithoutRequests sends only the headers of a call. The call must count as open, and must not be executed if the
// token is revoked before the request arrives.
func TestCallsWithoutRequests(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"root": {Admin: true}, "alice": {Admin: true}}, Limits: fleet.Limits{OpenCalls: 1}})
	s, err := f.conn.NewStream(f.authContext(t.Context(), "alice"), &grpc.StreamDesc{ClientStreams: true}, fleetv1.TokenService_CreateToken_FullMethodName)
	require.NoError(t, err)
	listAgents := func() error {
		_, err := fleetv1.NewFleetServiceClient(f.conn).ListAgents(f.authContext(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
		return err
	}
	waittest.Until(t, "the arrival of headers gives no signal", func() bool { return status.Code(listAgents()) == codes.ResourceExhausted })

	// A tab, which metadata cannot hold, must not keep a call from counting for alice.
	_, answer := f.post(t, "/mcp", strings.Replace(f.authorization("alice"), " ", " \t", 1), listAgentsTool)
	require.Contains(t, answer, "limits.open_calls")

	tokens := fleetv1.NewTokenServiceClient(f.conn)
	_, err = tokens.RevokeToken(f.authContext(t.Context(), "root"), &fleetv1.RevokeTokenRequest{Name: "alice"})
	require.NoError(t, err)
	require.Error(t, s.RecvMsg(&fleetv1.CreateTokenResponse{}), "the server must not wait for the request")
	_ = s.SendMsg(&fleetv1.CreateTokenRequest{Name: "backdoor", Admin: true}) // the stream has ended
	list, err := tokens.ListTokens(f.authContext(t.Context(), "root"), &fleetv1.ListTokensRequest{})
	require.NoError(t, err)
	for _, token := range list.GetTokens() {
		require.NotEqual(t, "backdoor", token.GetName())
	}
}

// TestOpenCalls opens as many streams as a principal may have. Until a stream ends, other calls of the principal must be
// refused, and calls of other principals must not.
func TestOpenCalls(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}, "bob": {}}, Limits: fleet.Limits{OpenCalls: 2}})
	client := fleetv1.NewFleetServiceClient(f.conn)
	_, err := f.mcpClient(t.Context(), "alice", toolsetOf(methods["list_agents"])) // it connects before the limit is reached
	require.NoError(t, err)
	var end context.CancelFunc
	for range 2 {
		var ctx context.Context
		ctx, end = context.WithCancel(f.authContext(t.Context(), "alice"))
		defer end()
		_, err := client.WatchFleet(ctx, &fleetv1.WatchFleetRequest{Follow: true})
		require.NoError(t, err)
	}
	listAgents := func() bool {
		_, err := client.ListAgents(f.authContext(t.Context(), "alice"), &fleetv1.ListAgentsRequest{})
		return err == nil
	}
	waittest.Until(t, "a stream without events sends nothing", func() bool { return !listAgents() })
	for _, face := range []string{"grpc", "rest", "mcp"} {
		r := f.call(t, face, "list_agents", "alice", nil)
		require.NotNil(t, r.err, face)
		require.Equal(t, string(fleet.ReasonLimitReached), r.err.Reason, face)
		require.Equal(t, "limits.open_calls", r.err.Details["limit"], face)
	}
	_, err = client.ListAgents(f.authContext(t.Context(), "bob"), &fleetv1.ListAgentsRequest{})
	require.NoError(t, err)
	end()
	waittest.Until(t, "the server learns by itself that a client has cancelled", listAgents)
}
