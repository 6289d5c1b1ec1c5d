package turn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/turn"
	"fleet/internal/waittest"
)

// TestForegroundPassesBackground checks that foreground calls pass background calls, but that at most four of them pass a
// waiting background call.
func TestForegroundPassesBackground(t *testing.T) {
	t.Parallel()
	q := turn.NewQueue("item")
	item, err := q.Acquire(t.Context())
	require.NoError(t, err)
	order := make(chan string)
	enqueue := func(ctx context.Context, name string) {
		foregroundBefore, backgroundBefore := q.Waiting()
		go func() {
			item, err := q.Acquire(ctx)
			if err != nil {
				name = err.Error()
			}
			order <- name
			if err == nil {
				q.Release(ctx, item)
			}
		}()
		waittest.Until(t, "a queue gives no signal", func() bool {
			foreground, background := q.Waiting()
			return foreground+background > foregroundBefore+backgroundBefore
		})
	}
	backgroundCtx := fleet.WithLease(t.Context(), fleet.Lease{Key: "agent/1", Epoch: 1})
	abandoned, leave := context.WithCancel(backgroundCtx)
	enqueue(abandoned, "gone")
	enqueue(backgroundCtx, "background 1")
	enqueue(backgroundCtx, "background 2")
	for range 6 {
		enqueue(t.Context(), "foreground")
	}
	leave()
	require.Equal(t, context.Canceled.Error(), <-order)
	q.Release(t.Context(), item)
	var got []string
	for range 8 {
		got = append(got, <-order)
	}
	require.Equal(t, []string{"foreground", "foreground", "foreground", "foreground", "background 1", "foreground", "foreground", "background 2"}, got)
	item, err = q.Acquire(t.Context())
	require.NoError(t, err)
	require.Empty(t, q.Close())
	q.Release(t.Context(), item)
	require.Equal(t, []string{"item"}, q.Close())
}

// TestBackgroundLeavesHalfToForeground checks that background calls have at most half of the items at the same time.
func TestBackgroundLeavesHalfToForeground(t *testing.T) {
	t.Parallel()
	q := turn.NewQueue(1, 2, 3, 4)
	backgroundCtx := fleet.WithLease(t.Context(), fleet.Lease{Key: "agent/1", Epoch: 1})
	first, err := q.Acquire(backgroundCtx)
	require.NoError(t, err)
	_, err = q.Acquire(backgroundCtx)
	require.NoError(t, err)
	third := make(chan error)
	go func() {
		_, err := q.Acquire(backgroundCtx)
		third <- err
	}()
	waittest.Until(t, "a queue gives no signal", func() bool {
		_, background := q.Waiting()
		return background == 1
	})
	foreground, err := q.Acquire(t.Context())
	require.NoError(t, err)
	_, err = q.Acquire(t.Context())
	require.NoError(t, err)
	q.Release(t.Context(), foreground)
	_, background := q.Waiting()
	require.Equal(t, 1, background, "a background call must not get the item of a foreground call")
	q.Release(backgroundCtx, first)
	require.NoError(t, <-third)
}
