package app

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// TestUnreadBytes leaves large answers to unary calls unread. The server must count them until it has sent or dropped them.
func TestUnreadBytes(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	const size = 1 << 20
	_, err := fleetv1.NewFleetServiceClient(f.conn).CreateAgent(f.as(t.Context(), "alice"), &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: strings.Repeat("s", size)})
	require.NoError(t, err)
	show := &fleetv1.ShowAgentRequest{AgentName: "papi"}
	whole := grpc.MaxCallRecvMsgSize(4 * size)
	shown, err := fleetv1.NewFleetServiceClient(f.conn).ShowAgent(f.as(t.Context(), "alice"), show, whole)
	require.NoError(t, err)
	answer := int64(proto.Size(shown)) // observed_at may change its size

	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20), // otherwise the client would read on its own
		grpc.WithDefaultCallOptions(whole))
	require.NoError(t, err)
	defer conn.Close()
	open := func() (grpc.ClientStream, context.CancelFunc) {
		ctx, cancel := context.WithCancel(f.as(t.Context(), "alice"))
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fleetv1.FleetService_ShowAgent_FullMethodName)
		require.NoError(t, err)
		require.NoError(t, s.SendMsg(show))
		require.NoError(t, s.CloseSend())
		return s, cancel
	}
	awaitUnread := func(answers int64) {
		t.Helper()
		waittest.Until(t, "a client gives no signal that it does not read", func() bool {
			runtime.GC() // gRPC forgets the buffers of a closed connection
			n := f.interceptor.Unread()
			return answers*(answer-100) <= n && n <= answers*(answer+100)
		})
	}
	first, _ := open()
	_, cancel := open()
	open()
	awaitUnread(3)
	require.NoError(t, first.RecvMsg(&fleetv1.ShowAgentResponse{}))
	awaitUnread(2)
	cancel()
	awaitUnread(1)
	require.NoError(t, conn.Close())
	awaitUnread(0)
}
