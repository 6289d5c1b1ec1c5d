package admission

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestUnreadOverHTTP checks that a response counts until the HTTP request has ended, and that a principal with too many unread
// bytes is refused.
func TestUnreadOverHTTP(t *testing.T) {
	t.Parallel()
	i := NewInterceptor(Config{
		Auth: aliceAuth{}, Log: slog.New(slog.DiscardHandler), Remote: func(context.Context) string { return "" }, Observer: noObserver{}, Audit: discardAudit{},
	})
	defer i.Close()
	identify := func(method string) (context.Context, context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		ctx, err := i.Identify(ctx, metadata.MD{authorization: {"Bearer x"}}, method)
		return ctx, cancel, err
	}
	const method = fleetv1.FleetService_ShowAgent_FullMethodName
	ctx, cancel, err := identify(method)
	require.NoError(t, err)
	callWith := func(spec string) {
		resp, err := i.Unary(ctx, &fleetv1.ShowAgentRequest{}, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			return &fleetv1.ShowAgentResponse{Agent: &fleetv1.Agent{Spec: spec}}, nil
		})
		require.NoError(t, err)
		require.Equal(t, spec, resp.(*fleetv1.ShowAgentResponse).GetAgent().GetSpec())
	}
	callWith("short")
	require.Zero(t, i.Unread())
	callWith(strings.Repeat("s", minUnread))
	require.InDelta(t, minUnread, i.Unread(), 100)
	cancel()
	waittest.Until(t, "the end of a call gives no signal", func() bool { return i.Unread() == 0 })
	callWith(strings.Repeat("s", minUnread))
	waittest.Until(t, "the end of an earlier call gives no signal", func() bool { return i.Unread() == 0 })

	first := i.unread.add("alice", maxUnread)
	_, _, err = identify(method)
	require.NoError(t, err)
	more := i.unread.add("alice", 1)
	_, _, err = identify(method)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "answers that you have not read")
	first.release()
	more.release()
	more.release()
	more.resize(1)
	require.Zero(t, i.Unread())
	_, _, err = identify(method)
	require.NoError(t, err)
}

// TestGarbageCollectedResponses checks that a response over gRPC counts until its buffer is released or garbage collected.
func TestGarbageCollectedResponses(t *testing.T) {
	t.Parallel()
	i := &Interceptor{unread: newUnreadCounter()}
	ctx := context.WithValue(t.Context(), identityKey{}, &identity{principal: fleet.Principal{Name: "alice"}, call: &openCall{}, grpcPart: &callPart{}})
	codec := CountingCodec{encoding.GetCodecV2(grpcproto.Name)}
	marshal := func(spec string) mem.BufferSlice {
		sent := &fleetv1.Agent{Spec: spec}
		data, err := codec.Marshal(i.countUnread(ctx, sent))
		require.NoError(t, err)
		var got fleetv1.Agent
		require.NoError(t, codec.Unmarshal(data, &got))
		require.True(t, proto.Equal(sent, &got))
		return data
	}
	marshal("short")
	require.Zero(t, i.Unread())
	data := marshal(strings.Repeat("s", minUnread))
	require.Positive(t, i.Unread())
	data.Free()
	require.Zero(t, i.Unread())
	for range 10 {
		marshal(strings.Repeat("s", minUnread))
	}
	waittest.Until(t, "the garbage collector gives no signal", func() bool { runtime.GC(); return i.Unread() == 0 })
	_, err := codec.Marshal(i.countUnread(ctx, &fleetv1.Agent{Spec: strings.Repeat("\xff", minUnread)}))
	require.Error(t, err)
	require.Zero(t, i.Unread())
}

// noObserver ignores calls.
type noObserver struct{}

func (noObserver) CallBegan(ctx context.Context, _, _ string) context.Context { return ctx }

func (noObserver) CallEnded(context.Context, string, string, bool, codes.Code, time.Duration) {}
