package service_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
)

// restartingStore is a store that does not answer while down is set.
type restartingStore struct {
	fleet.Store
	down   atomic.Bool
	failed chan struct{} // gets a value when a View has failed
}

func (r *restartingStore) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	if r.down.Load() {
		select {
		case r.failed <- struct{}{}:
		default:
		}
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the database does not answer")
	}
	return r.Store.View(ctx, fn)
}

// TestFollowDuringARestartOfTheStore checks that FollowTask goes on after the store has not answered for a moment.
func TestFollowDuringARestartOfTheStore(t *testing.T) {
	t.Parallel()
	store := &restartingStore{failed: make(chan struct{}, 1)}
	h := servicetest.NewOver(t, fake.Config{}, nil, func(s fleet.Store) fleet.Store { store.Store = s; return store })
	h.Create("papi")
	task := h.Start("papi", "wait here")
	store.down.Store(true)
	type result struct {
		task *fleet.Task
		err  error
	}
	followed := make(chan result, 1)
	go func() {
		task, err := h.FollowTask(h.Context(), task.ID, 0, func(fleet.Event) error { return nil })
		followed <- result{task, err}
	}()
	<-store.failed
	store.down.Store(false)
	_, _, _, err := h.StopTask(h.Context(), "papi", "")
	require.NoError(t, err)
	r := <-followed
	require.NoError(t, r.err)
	require.Equal(t, fleet.TaskStopped, r.task.Status)
}
