package turn_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/turn"
	"fleet/internal/waittest"
)

// TestCallersPassWorkers checks that foreground calls pass background calls, but at most four of them pass the first
// waiting background call.
func TestCallersPassWorkers(t *testing.T) {
	t.Parallel()
	q := turn.NewQueue("the pen")
	pen, err := q.Take(t.Context())
	require.NoError(t, err)
	order := make(chan string)
	wait := func(ctx context.Context, name string) {
		f, b := q.Waiting()
		go func() {
			pen, err := q.Take(ctx)
			if err != nil {
				name = err.Error()
			}
			order <- name
			if err == nil {
				q.Give(pen)
			}
		}()
		waittest.Until(t, "a queue gives no signal", func() bool {
			front, back := q.Waiting()
			return front+back > f+b
		})
	}
	worker := fleet.WithLease(t.Context(), fleet.Lease{Key: "agent/1", Epoch: 1})
	gone, leave := context.WithCancel(worker)
	wait(gone, "gone")
	wait(worker, "worker 1")
	wait(worker, "worker 2")
	for range 6 {
		wait(t.Context(), "caller")
	}
	leave()
	require.Equal(t, context.Canceled.Error(), <-order)
	q.Give(pen)
	var got []string
	for range 8 {
		got = append(got, <-order)
	}
	require.Equal(t, []string{"caller", "caller", "caller", "caller", "worker 1", "caller", "caller", "worker 2"}, got)
	pen, err = q.Take(t.Context())
	require.NoError(t, err)
	require.Empty(t, q.Close())
	q.Give(pen)
	require.Equal(t, []string{"the pen"}, q.Close())
}
