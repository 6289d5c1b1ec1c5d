package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPauseAfterTheEndOfARun checks that a worker pauses before a retry even if the agent's run has already ended.
// Otherwise it would retry without a pause while the store fails.
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
