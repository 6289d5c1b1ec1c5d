package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
)

// TestFollowFailsDuringAStop checks that a run that cannot be followed is not followed without a pause, also while it is being
// stopped.
func TestFollowFailsDuringAStop(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	h.World.Fail(fake.Follow, 1<<30, nil)
	task := h.Start("papi", "wait here")
	<-h.World.Called(fake.Follow, 2)
	begun, calls := time.Now(), h.World.Calls(fake.Follow)
	stopped := make(chan error, 1)
	go func() {
		_, _, _, err := h.StopTask(h.Context(), "papi", "")
		stopped <- err
	}()
	<-h.World.Called(fake.Follow, calls+3) // one may be under way, and the stop causes one at once
	require.GreaterOrEqual(t, time.Since(begun), 500*time.Millisecond)
	h.World.Fail(fake.Follow, 0, nil)
	require.NoError(t, <-stopped)
	ended, err := h.FollowTask(h.Context(), task.ID, 0, func(fleet.Event) error { return nil })
	require.NoError(t, err)
	require.Equal(t, fleet.TaskStopped, ended.Status)
}
