package service_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestExpiredTasksDoNotChange changes a task that has expired but is not stopped yet. The error must say that the task has expired, and
// must not be about a field that the caller has not given.
func TestExpiredTasksDoNotChange(t *testing.T) {
	t.Parallel()
	var late atomic.Bool
	begun := time.Now()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		c.Now = func() time.Time {
			if late.Load() {
				return begun.Add(2 * time.Hour)
			}
			return begun
		}
	})
	alice := h.Context()
	h.Create("papi")
	h.Reconciler.Stop() // nothing stops the task when it expires
	r := service.QueueTaskRequest{Entry: fleet.QueueEntry{Expires: begun.Add(time.Hour)}}
	r.Agent, r.Description = "papi", "done"
	task, err := h.QueueTask(alice, r)
	require.NoError(t, err)

	change := service.UpdateQueuedTaskRequest{TaskID: task.ID, NotBefore: new(begun.Add(90 * time.Minute))}
	_, err = h.UpdateQueuedTask(alice, change)
	require.ErrorContains(t, err, "not_before is after the time at which the task expires")
	late.Store(true)
	change = service.UpdateQueuedTaskRequest{TaskID: task.ID, Priority: new(5)}
	_, err = h.UpdateQueuedTask(alice, change)
	require.Equal(t, fleet.ReasonTaskNotPending, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "has expired")
	change.Expires = new(begun.Add(3 * time.Hour))
	_, err = h.UpdateQueuedTask(alice, change)
	require.NoError(t, err, "more time can be given")
}
