package admission

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// TestUnreadAnswer checks that a call ends whose client does not read its answer, and no other call.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	o := newOpenCalls(known{}, 0, 20*time.Millisecond)
	o.every = time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c, err := o.enter(ctx, fleet.Principal{Name: "alice"}, metadata.MD{})
	require.NoError(t, err)
	read, w, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	w.sends()
	w.sent()
	ignored, w, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	w.sends()
	<-ignored.Done()                             // after more than 20 checks
	why, ok := context.Cause(ignored).(endError) //nolint:errorlint // the cause is not wrapped
	require.True(t, ok)
	require.Equal(t, notRead(o.patience), why.error)
	require.NoError(t, read.Err())
}

// known identifies every caller.
type known struct{}

func (known) Authenticate(context.Context, metadata.MD) (fleet.Principal, error) {
	return fleet.Principal{Name: "alice"}, nil
}
