package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// TestPayloadRetention checks that old payloads are removed and that their tasks say so.
func TestPayloadRetention(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) {
		c.Retention, c.PayloadRetention, c.PruneEvery = -1, 200*time.Millisecond, 60*time.Millisecond
	})
	h.create("papi")
	task, err := h.StartTask(h.ctx(), service.StartTaskRequest{Agent: "papi", Description: "payload all\ndone well"})
	require.NoError(t, err)
	h.end(task.ID)
	waittest.Until(t, "pruning writes no event", func() bool {
		shown, err := h.ShowTask(h.ctx(), task.ID, &fleet.PortionRequest{})
		require.NoError(t, err)
		require.Equal(t, 3, shown.PayloadSize)
		return shown.PayloadRemoved && shown.Payload == nil
	})
}

// TestRetention holds that old events and requests go, and the history of tasks does not.
func TestRetention(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) {
		c.Retention, c.PruneEvery = 200*time.Millisecond, 60*time.Millisecond
	})
	h.create("papi")
	r := service.StartTaskRequest{Agent: "papi", Description: "echo hello\npayload all\ndone well", RequestID: "r"}
	task, err := h.StartTask(h.ctx(), r)
	require.NoError(t, err)
	h.end(task.ID)
	waittest.Until(t, "pruning writes no event", func() bool {
		n := 0
		err := h.Watch(h.ctx(), service.WatchRequest{}, func(events []fleet.Event, _ string) error { n += len(events); return nil })
		return err == nil && n == 1
	})
	err = h.Watch(h.ctx(), service.WatchRequest{Cursor: "1"}, func([]fleet.Event, string) error { return nil })
	require.Equal(t, fleet.ReasonCursorExpired, fleet.ReasonOf(err), "a watcher that has missed events: %v", err)
	again, err := h.StartTask(h.ctx(), r)
	require.NoError(t, err)
	require.NotEqual(t, task.ID, again.ID, "the request is forgotten")
	h.end(again.ID)
	shown, err := h.ShowTask(h.ctx(), task.ID, &fleet.PortionRequest{})
	require.NoError(t, err)
	require.Equal(t, "well", shown.Summary)
	require.Equal(t, "all", string(shown.Payload.Bytes))
	v, err := h.ShowAgent(h.ctx(), "papi")
	require.NoError(t, err)
	require.Equal(t, fleet.StatusIdle, v.Status())
}
