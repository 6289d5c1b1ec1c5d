package rpc

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// TestUnreadOverHTTP checks that an answer counts until the HTTP request has ended, and that a principal with too many unread
// bytes is refused.
func TestUnreadOverHTTP(t *testing.T) {
	t.Parallel()
	i := NewInterceptor(Config{
		Auth: known{}, Log: slog.New(slog.DiscardHandler), Remote: func(context.Context) string { return "" }, Observer: noObserver{}, Audit: noLines{},
	})
	defer i.Close()
	identified := func(method string) (context.Context, context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		ctx, err := i.Identify(ctx, metadata.MD{authorization: {"Bearer x"}}, method)
		return ctx, cancel, err
	}
	const method = fleetv1.FleetService_ShowAgent_FullMethodName
	ctx, cancel, err := identified(method)
	require.NoError(t, err)
	answer := func(spec string) {
		resp, err := i.Unary(ctx, &fleetv1.ShowAgentRequest{}, &grpc.UnaryServerInfo{FullMethod: method}, func(context.Context, any) (any, error) {
			return &fleetv1.ShowAgentResponse{Agent: &fleetv1.Agent{Spec: spec}}, nil
		})
		require.NoError(t, err)
		require.Equal(t, spec, resp.(*fleetv1.ShowAgentResponse).GetAgent().GetSpec())
	}
	answer("short")
	require.Zero(t, i.Unread())
	answer(strings.Repeat("s", minUnread))
	require.InDelta(t, minUnread, i.Unread(), 100)
	cancel()
	waittest.Until(t, "the end of a call gives no signal", func() bool { return i.Unread() == 0 })
	answer(strings.Repeat("s", minUnread))
	require.Zero(t, i.Unread(), "the call has ended before")

	release := i.unread.hold("alice", maxUnread)
	_, _, err = identified(method)
	require.NoError(t, err)
	more := i.unread.hold("alice", 1)
	_, _, err = identified(method)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "answers that you have not read")
	release()
	more()
	more()
	require.Zero(t, i.Unread())
	_, _, err = identified(method)
	require.NoError(t, err)
}

// noObserver ignores calls.
type noObserver struct{}

func (noObserver) CallBegan(ctx context.Context, _, _ string) context.Context { return ctx }

func (noObserver) CallEnded(context.Context, string, string, bool, codes.Code, time.Duration) {}
