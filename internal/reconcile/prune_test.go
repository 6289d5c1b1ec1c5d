package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// pruneSignalStore sends to pruned after each call of Prune.
type pruneSignalStore struct {
	fleet.Store
	pruned chan struct{} // has room for one value
}

func (s pruneSignalStore) Prune(ctx context.Context, kind fleet.PruneKind, before time.Time, limit int) (int, error) {
	defer s.notify()
	return s.Store.Prune(ctx, kind, before, limit)
}

func (s pruneSignalStore) notify() {
	select {
	case s.pruned <- struct{}{}:
	default: // a value is pending
	}
}

// newWithPruneSignal starts a fleet, and returns a channel that gets a value after each call of Prune.
func newWithPruneSignal(t *testing.T, with func(*state.Config)) (*servicetest.Harness, <-chan struct{}) {
	t.Helper()
	pruned := make(chan struct{}, 1)
	return servicetest.NewOver(t, fake.Config{}, with, func(s fleet.Store) fleet.Store { return pruneSignalStore{s, pruned} }), pruned
}

// brokenHistoryStore is a store whose history cannot be pruned.
type brokenHistoryStore struct{ fleet.Store }

func (s brokenHistoryStore) Prune(ctx context.Context, kind fleet.PruneKind, before time.Time, limit int) (int, error) {
	if kind == fleet.PruneHistory {
		return 0, errors.New("a row cannot be read")
	}
	return s.Store.Prune(ctx, kind, before, limit)
}

// failingTidier is a place whose Tidy fails, so it cannot remove expired files.
type failingTidier struct {
	fleet.Place
	tidied chan struct{} // gets a value when Tidy is called; has room for one
}

func (f failingTidier) Tidy(context.Context, time.Time) error {
	select {
	case f.tidied <- struct{}{}:
	default: // a value is pending
	}
	return errors.New("the disk is read-only")
}

// TestPayloadRetention checks that expired payloads are removed and that their tasks say so, even if Tidy of a place
// and the pruning of the history fail.
func TestPayloadRetention(t *testing.T) {
	t.Parallel()
	place := failingTidier{servicetest.SecondPlace(t, fake.Config{}), make(chan struct{}, 1)}
	pruned := make(chan struct{}, 1)
	h := servicetest.NewOver(t, fake.Config{}, func(c *state.Config) {
		c.Retention, c.PayloadRetention, c.PruneEvery = time.Hour, 200*time.Millisecond, 60*time.Millisecond
	}, func(s fleet.Store) fleet.Store { return pruneSignalStore{brokenHistoryStore{s}, pruned} }, place)
	<-place.tidied
	h.MustCreate("papi", "fake/Setup")
	task, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "payload all\ndone well"})
	require.NoError(t, err)
	h.WaitTask(task.ID)
	waittest.UntilSignalled(t, pruned, func() bool {
		shown, err := h.ShowTask(h.Context(), task.ID, &fleet.PortionRequest{})
		require.NoError(t, err)
		require.Equal(t, 3, shown.PayloadSize)
		return shown.PayloadRemoved && shown.Payload == nil
	})
}

// TestRetention checks that expired events and request ids are removed, but tasks, their results and agents are not.
func TestRetention(t *testing.T) {
	t.Parallel()
	h, pruned := newWithPruneSignal(t, func(c *state.Config) {
		c.Retention, c.PruneEvery = 200*time.Millisecond, 60*time.Millisecond
	})
	h.Create("papi")
	r := service.StartTaskRequest{Agent: "papi", Description: "echo hello\npayload all\ndone well", RequestID: "r"}
	task, err := h.StartTask(h.Context(), r)
	require.NoError(t, err)
	h.WaitTask(task.ID)
	waittest.UntilSignalled(t, pruned, func() bool {
		n := 0
		err := h.Watch(h.Context(), service.WatchRequest{}, func(events []fleet.Event, _ string) error { n += len(events); return nil })
		return err == nil && n == 1 // the newest event is always kept
	})
	err = h.Watch(h.Context(), service.WatchRequest{Cursor: "1"}, func([]fleet.Event, string) error { return nil })
	require.Equal(t, fleet.ReasonCursorExpired, fleet.ReasonOf(err), "a cursor before the removed events must be refused: %v", err)
	again, err := h.StartTask(h.Context(), r)
	require.NoError(t, err)
	require.NotEqual(t, task.ID, again.ID, "the request id has expired, so a new task must start")
	h.WaitTask(again.ID)
	shown, err := h.ShowTask(h.Context(), task.ID, &fleet.PortionRequest{})
	require.NoError(t, err)
	require.Equal(t, "well", shown.Summary)
	require.Equal(t, "all", string(shown.Payload.Bytes))
	v, err := h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err)
	require.Equal(t, fleet.StatusIdle, v.Status())
}
