package rpc

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"fleet/internal/fleet"
)

// TestUnreadAnswer checks that a call ends whose client does not read its answer.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	o := newOpenCalls(nil, 0)
	o.every, o.patience = time.Hour, time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	c, err := o.enter(ctx, fleet.Principal{Name: "alice"}, metadata.MD{})
	require.NoError(t, err)
	ctx, w, _, err := o.attach(ctx, c, true)
	require.NoError(t, err)
	require.ErrorIs(t, w.whileReading(func() error { <-ctx.Done(); return ctx.Err() }), context.Canceled)
	why, ok := context.Cause(ctx).(ended) //nolint:errorlint // the cause is not wrapped
	require.True(t, ok)
	require.Equal(t, errUnread, why.error)

	_, w, _, err = o.attach(t.Context(), c, false)
	require.NoError(t, err)
	w.untilRead()
	<-w.ctx.Done()
	require.Equal(t, why, context.Cause(w.ctx))
	end()
}
