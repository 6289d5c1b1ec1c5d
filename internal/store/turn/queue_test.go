package turn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/turn"
	"fleet/internal/waittest"
)

// TestCallersPassWorkers checks that foreground calls pass background calls, but that at most four of them pass a
// waiting background call.
func TestCallersPassWorkers(t *testing.T) {
	t.Parallel()
	q := turn.NewQueue("the pen")
	pen, err := q.Acquire(t.Context())
	require.NoError(t, err)
	order := make(chan string)
	wait := func(ctx context.Context, name string) {
		f, b := q.Waiting()
		go func() {
			pen, err := q.Acquire(ctx)
			if err != nil {
				name = err.Error()
			}
			order <- name
			if err == nil {
				q.Release(ctx, pen)
			}
		}()
		waittest.Until(t, "a queue gives no signal", func() bool {
			front, back := q.Waiting()
			return front+back > f+b
		})
	}
	worker := fleet.WithLease(t.Context(), fleet.Lease{Key: "agent/1", Epoch: 1})
	abandoned, leave := context.WithCancel(worker)
	wait(abandoned, "gone")
	wait(worker, "worker 1")
	wait(worker, "worker 2")
	for range 6 {
		wait(t.Context(), "caller")
	}
	leave()
	require.Equal(t, context.Canceled.Error(), <-order)
	q.Release(t.Context(), pen)
	var got []string
	for range 8 {
		got = append(got, <-order)
	}
	require.Equal(t, []string{"caller", "caller", "caller", "caller", "worker 1", "caller", "caller", "worker 2"}, got)
	pen, err = q.Acquire(t.Context())
	require.NoError(t, err)
	require.Empty(t, q.Close())
	q.Release(t.Context(), pen)
	require.Equal(t, []string{"the pen"}, q.Close())
}

// TestWorkersLeaveHalfToCallers checks that background calls have at most half of the items at the same time.
func TestWorkersLeaveHalfToCallers(t *testing.T) {
	t.Parallel()
	q := turn.NewQueue(1, 2, 3, 4)
	worker := fleet.WithLease(t.Context(), fleet.Lease{Key: "agent/1", Epoch: 1})
	first, err := q.Acquire(worker)
	require.NoError(t, err)
	_, err = q.Acquire(worker)
	require.NoError(t, err)
	third := make(chan error)
	go func() {
		_, err := q.Acquire(worker)
		third <- err
	}()
	waittest.Until(t, "a queue gives no signal", func() bool {
		_, back := q.Waiting()
		return back == 1
	})
	caller, err := q.Acquire(t.Context())
	require.NoError(t, err)
	_, err = q.Acquire(t.Context())
	require.NoError(t, err)
	q.Release(t.Context(), caller)
	_, back := q.Waiting()
	require.Equal(t, 1, back, "a worker must not get the item of a caller")
	q.Release(worker, first)
	require.NoError(t, <-third)
}
