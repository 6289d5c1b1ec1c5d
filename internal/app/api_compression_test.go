package app

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/stats"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestCompressedMessages sends a small message that would become 20 MB. The server must refuse it before it knows the
// caller.
func TestCompressedMessages(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	r := &fleetv1.CreateAgentRequest{Name: strings.Repeat("a", 20<<20)}
	for method, ctx := range map[string]context.Context{
		fleetv1.HealthService_CheckHealth_FullMethodName: t.Context(),
		fleetv1.FleetService_CreateAgent_FullMethodName:  f.authContext(t.Context(), "alice"),
	} {
		err := f.conn.Invoke(ctx, method, r, &fleetv1.CreateAgentResponse{}, grpc.UseCompressor(gzip.Name))
		require.ErrorContains(t, err, "send them without compression", method)
	}
}

// TestCompressedAnswers asks for compressed answers. The answers must be uncompressed, because gRPC reports when it has released a
// buffer only for those. The requests are empty, because the server refuses compressed requests, and gRPC does not compress empty
// messages.
func TestCompressedAnswers(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	var answers encodings
	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(&answers))
	require.NoError(t, err)
	defer conn.Close()
	client := fleetv1.NewFleetServiceClient(conn)
	_, err = client.ListAgents(f.authContext(t.Context(), "alice"), &fleetv1.ListAgentsRequest{}, grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	events, err := client.WatchFleet(f.authContext(t.Context(), "alice"), &fleetv1.WatchFleetRequest{}, grpc.UseCompressor(gzip.Name))
	require.NoError(t, err)
	_, err = events.Header()
	require.NoError(t, err)
	require.Equal(t, []string{encoding.Identity, encoding.Identity}, answers.list())
}

// encodings is a stats.Handler that records how the answers to a client are compressed.
type encodings struct {
	mu    sync.Mutex
	names []string
}

func (e *encodings) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.names
}

func (e *encodings) HandleRPC(_ context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.names = append(e.names, h.Compression)
	}
}

func (*encodings) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (*encodings) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*encodings) HandleConn(context.Context, stats.ConnStats)                       {}
