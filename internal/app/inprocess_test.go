package app

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestRefusedStream checks that RecvMsg returns the reason if a stream is refused before its request is sent.
func TestRefusedStream(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{Tokens: map[string]tokenConfig{"alice": {}}})
	s, err := f.Conn().NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, fleetv1.FleetService_WatchFleet_FullMethodName)
	require.NoError(t, err)
	require.Equal(t, codes.Unauthenticated, status.Code(s.RecvMsg(&fleetv1.WatchFleetResponse{}))) // the stream has been refused now
	require.NoError(t, s.SendMsg(&fleetv1.WatchFleetRequest{}))
	require.NoError(t, s.CloseSend())
	require.Equal(t, codes.Unauthenticated, status.Code(s.RecvMsg(&fleetv1.WatchFleetResponse{})))
}
