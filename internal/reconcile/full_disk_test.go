package reconcile_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestFullDisk fills the disk of the store while tasks run. It checks that a failing task is reported as failed, with an
// event that its output was not kept, that tasks can be stopped and agents deleted, and that no task can be started.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	h := servicetest.NewOver(t, fake.Config{}, nil, func(s fleet.Store) fleet.Store { return fullStore{s, &full} })
	h.Create("papi")
	h.Create("sony")
	failingTask := h.Start("papi", "wait gate\necho lost\npayload much\nfail exit code 1")
	stoppedTask := h.Start("sony", "wait ever")
	<-h.FakePlace.Reached("gate")
	full.Store(true)
	health := h.Health(t.Context())
	require.True(t, slices.ContainsFunc(health.Degraded, func(d fleet.DegradedPart) bool { return d.Part == "disk" }), "%v", health.Degraded)
	require.True(t, health.Ready)
	h.FakePlace.Release("gate")
	ended := h.WaitTask(failingTask.ID)
	require.Equal(t, fleet.TaskFailed, ended.Status)
	require.Equal(t, "exit code 1", ended.Reason)
	require.Empty(t, h.Output(failingTask.ID))
	require.Contains(t, h.Events(fleet.EventTaskStep), "output is not kept: the disk of the server's data is full")
	task, _, _, err := h.StopTask(h.Context(), "sony", "")
	require.NoError(t, err)
	require.Equal(t, stoppedTask.ID, task.ID)
	require.Equal(t, fleet.TaskStopped, task.Status)
	_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "done"})
	require.ErrorIs(t, err, fleet.ErrStoreFull)
	h.MustDelete("papi")
	full.Store(false)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("sony", "done").ID).Status)
}

// fullStore is a store that has no space for new rows, parts and output while full is set.
type fullStore struct {
	fleet.Store
	full *atomic.Bool
}

func (s fullStore) Full() (time.Time, bool) { return time.Now(), s.full.Load() }

func (s fullStore) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	return s.Store.Update(ctx, func(tx fleet.Tx) error {
		if s.full.Load() {
			tx = fullTx{tx}
		}
		return fn(tx)
	})
}

// fullTx is a transaction that fails with ErrStoreFull when it adds a row, a part, or an event with output.
type fullTx struct{ fleet.Tx }

func (fullTx) Insert(fleet.Row) error       { return fleet.ErrStoreFull }
func (fullTx) Put(string, fleet.Part) error { return fleet.ErrStoreFull }

func (t fullTx) Append(e *fleet.Event) error {
	if e.Type == fleet.EventTaskOutput {
		return fleet.ErrStoreFull
	}
	return t.Tx.Append(e)
}
