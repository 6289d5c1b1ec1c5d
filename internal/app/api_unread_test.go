package app

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// TestUnreadBytes leaves large answers to unary calls unread. The server must count their bytes until it has sent or dropped them.
func TestUnreadBytes(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	const size = 1 << 20
	_, err := fleetv1.NewFleetServiceClient(f.conn).CreateAgent(f.authContext(t.Context(), "alice"), &fleetv1.CreateAgentRequest{Name: "papi", Project: "Setup", Spec: strings.Repeat("s", size)})
	require.NoError(t, err)
	show := &fleetv1.ShowAgentRequest{AgentName: "papi"}
	largeMessages := grpc.MaxCallRecvMsgSize(4 * size)
	shown, err := fleetv1.NewFleetServiceClient(f.conn).ShowAgent(f.authContext(t.Context(), "alice"), show, largeMessages)
	require.NoError(t, err)
	answer := int64(proto.Size(shown)) // other answers may differ by a few bytes, because observed_at changes

	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20), // otherwise the client would read on its own
		grpc.WithDefaultCallOptions(largeMessages))
	require.NoError(t, err)
	defer conn.Close()
	openCall := func() (grpc.ClientStream, context.CancelFunc) {
		ctx, cancel := context.WithCancel(f.authContext(t.Context(), "alice"))
		s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fleetv1.FleetService_ShowAgent_FullMethodName)
		require.NoError(t, err)
		require.NoError(t, s.SendMsg(show))
		require.NoError(t, s.CloseSend())
		return s, cancel
	}
	awaitUnread := func(answers int64) {
		t.Helper()
		waittest.Until(t, "a client gives no signal that it does not read", func() bool {
			runtime.GC() // gRPC does not release the buffers of a closed connection; they count until they are collected
			n := f.interceptor.Unread()
			return answers*(answer-100) <= n && n <= answers*(answer+100)
		})
	}
	first, _ := openCall()
	_, cancel := openCall()
	openCall()
	awaitUnread(3)
	require.NoError(t, first.RecvMsg(&fleetv1.ShowAgentResponse{}))
	awaitUnread(2)
	cancel()
	awaitUnread(1)
	require.NoError(t, conn.Close())
	awaitUnread(0)
}

// TestUnreadDownloads opens downloads and does not read them. The server must refuse further downloads of the principal at a
// limit, and must end the open downloads when the token is revoked.
func TestUnreadDownloads(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"root": {Admin: true}, "alice": {}, "bob": {}}})
	conn, err := grpc.NewClient(f.GRPCAddr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(1<<20)) // otherwise the client would read on its own
	require.NoError(t, err)
	defer conn.Close()
	lifecycle := fleetv1.NewLifecycleServiceClient(conn)
	started, err := lifecycle.AgentStart(f.authContext(t.Context(), "alice"), &fleetv1.AgentStartRequest{Contract: "listen"})
	require.NoError(t, err)
	random := make([]byte, 8<<20)
	_, err = rand.Read(random)
	require.NoError(t, err)
	_, err = lifecycle.AppendPayload(f.authContext(t.Context(), "alice"), &fleetv1.AppendPayloadRequest{AgentId: started.GetAgentId(), Chunk: base64.StdEncoding.EncodeToString(random)})
	require.NoError(t, err)
	_, err = lifecycle.AgentComplete(f.authContext(t.Context(), "alice"), &fleetv1.AgentCompleteRequest{AgentId: started.GetAgentId(), Summary: "heard"})
	require.NoError(t, err)
	download := func(caller string) error {
		s, err := lifecycle.DownloadPayload(f.authContext(t.Context(), caller), &fleetv1.DownloadPayloadRequest{AgentId: started.GetAgentId()})
		require.NoError(t, err)
		_, err = s.Recv()
		return err
	}
	downloads := 0
	for err = download("alice"); err == nil; err = download("alice") {
		downloads++
	}
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.InDelta(t, (512-64)/(len(random)>>20), downloads, 5, "a download counts as 64 MiB until its size is known")
	require.Equal(t, codes.NotFound, status.Code(download("bob")), "each principal has its own limit")

	require.EqualValues(t, downloads, f.guard.openCalls.Load())
	_, err = fleetv1.NewTokenServiceClient(f.conn).RevokeToken(f.authContext(t.Context(), "root"), &fleetv1.RevokeTokenRequest{Name: "alice"})
	require.NoError(t, err)
	waittest.Until(t, "the end of a call whose answer nobody reads gives no signal", func() bool { return f.guard.openCalls.Load() == 0 })
}
