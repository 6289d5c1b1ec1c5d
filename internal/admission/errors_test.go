package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fleet/internal/fleet"
)

func TestError(t *testing.T) {
	t.Parallel()
	err := Error(fleet.Invalid(fleet.ReasonInvalidName, "name", "the name %q will not do", "a\xff"))
	s, ok := status.FromError(err)
	require.True(t, ok)
	require.Equal(t, codes.InvalidArgument, s.Code())
	require.Len(t, s.Details(), 2)
	_, err2 := proto.Marshal(s.Proto())
	require.NoError(t, err2)

	s, _ = status.FromError(Error(&fleet.Error{Code: fleet.Unavailable, Reason: fleet.ReasonBackendUnavailable, Message: "gone \xff", RetryAfter: time.Second}))
	require.Equal(t, codes.Unavailable, s.Code())
	require.Len(t, s.Details(), 2, "an invalid text must not remove the details")
	_, err2 = proto.Marshal(s.Proto())
	require.NoError(t, err2)
}

// TestEveryCodeIsMapped fails if an error code of the core has no gRPC code. An error with such a code would become OK.
func TestEveryCodeIsMapped(t *testing.T) {
	t.Parallel()
	for c := fleet.Internal; c <= fleet.DeadlineExceeded; c++ {
		require.NotEqual(t, codes.OK, toStatus(&fleet.Error{Code: c}).Code(), "%d", c)
	}
}
