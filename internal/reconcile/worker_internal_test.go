package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPauseAfterTheEndOfARun lets the store fail when the agent's run has ended: the worker must not retry at once, for ever.
func TestPauseAfterTheEndOfARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &worker{woken: make(chan struct{}, 1), follow: &follower{done: make(chan struct{})}}
		close(w.follow.done)
		began := time.Now()
		w.pause(t.Context(), retryFirst)
		require.Equal(t, retryFirst, time.Since(began))
	})
}
