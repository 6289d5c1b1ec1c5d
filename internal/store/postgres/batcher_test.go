package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// TestCallsShareTheNextRun checks that the calls that arrive during a run share the next run and its error.
func TestCallsShareTheNextRun(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan int), make(chan error)
	b := batcher[int]{run: func(calls []*int) error {
		begun <- len(calls)
		for i, c := range calls {
			*c = i + 1
		}
		return <-goOn
	}}
	results, errs := make([]int, 11), make(chan error, 11)
	call := func(ctx context.Context, i int) { errs <- b.do(ctx, &results[i]) }
	awaitWaiting := func(n int) {
		waittest.Until(t, "a waiting call gives no signal", func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.next != nil && len(b.next.calls) == n
		})
	}

	go call(t.Context(), 0)
	require.Equal(t, 1, <-begun)
	for i := range 9 {
		go call(t.Context(), i+1)
	}
	awaitWaiting(9)
	canceled, cancel := context.WithCancel(t.Context())
	go call(canceled, 10)
	awaitWaiting(10)
	cancel()
	require.ErrorIs(t, <-errs, context.Canceled, "a cancelled call must not wait for the run")

	errSecond := errors.New("the second run failed")
	goOn <- nil
	require.NoError(t, <-errs)
	require.Equal(t, 10, <-begun, "the second run must have all waiting calls")
	goOn <- errSecond
	sum := 0
	for range 9 {
		require.ErrorIs(t, <-errs, errSecond)
	}
	for _, n := range results[1:] {
		sum += n
	}
	require.Equal(t, 55, sum, "each call must have its own result")

	go call(t.Context(), 0)
	require.Equal(t, 1, <-begun, "a call after the last run must begin a new run")
	goOn <- nil
	require.NoError(t, <-errs)
}
