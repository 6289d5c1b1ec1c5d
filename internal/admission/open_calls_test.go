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
	o := newOpenCalls(aliceAuth{}, 0, 20*time.Millisecond)
	o.interval = time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c, err := o.add(ctx, fleet.Principal{Name: "alice"}, metadata.MD{})
	require.NoError(t, err)
	readCtx, part, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	part.beginSend()
	part.endSend()
	unreadCtx, part, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	part.beginSend()
	<-unreadCtx.Done()                             // after more than 20 checks
	why, ok := context.Cause(unreadCtx).(endError) //nolint:errorlint // the cause is not wrapped
	require.True(t, ok)
	require.Equal(t, newNotReadError(o.unreadTimeout), why.error)
	require.NoError(t, readCtx.Err())
}

// aliceAuth identifies every caller as alice.
type aliceAuth struct{}

func (aliceAuth) Authenticate(context.Context, metadata.MD) (fleet.Principal, error) {
	return fleet.Principal{Name: "alice"}, nil
}
