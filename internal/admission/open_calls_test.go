package admission

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// TestUnreadResponse checks that a call ends if its client does not read its response, and that other calls continue.
func TestUnreadResponse(t *testing.T) {
	t.Parallel()
	o := newOpenCalls(anyAuth{}, 0, 20*time.Millisecond)
	o.interval = time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c, err := o.add(ctx, fleet.Principal{Name: "alice"}, metadata.MD{})
	require.NoError(t, err)
	read, part, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	part.beginSend()
	part.endSend()
	ignored, part, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	part.beginSend()
	<-ignored.Done()                             // after more than 20 checks
	why, ok := context.Cause(ignored).(endError) //nolint:errorlint // the cause is not wrapped
	require.True(t, ok)
	require.Equal(t, newNotReadError(o.unreadTimeout), why.error)
	require.NoError(t, read.Err())
}

// anyAuth identifies every caller as alice.
type anyAuth struct{}

func (anyAuth) Authenticate(context.Context, metadata.MD) (fleet.Principal, error) {
	return fleet.Principal{Name: "alice"}, nil
}
