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

// TestReplicaThatDoesNotPoll has one of two processes ask the host how things are: the other one knows when that was, and
// whether the host answers.
func TestReplicaThatDoesNotPoll(t *testing.T) {
	t.Parallel()
	h := newHarness(t, fake.Config{}, func(c *state.Config) { c.CallTimeout = 200 * time.Millisecond })
	h.create("papi")
	other := h.rec2()
	soon := func(what string, ok func() bool) {
		t.Helper()
		waittest.Until(t, what+": "+notAnnounced, ok)
	}
	soon("it knows", func() bool { return !placeState(other).ObservedAt.IsZero() })
	first := placeState(other).ObservedAt
	soon("it knows more", func() bool { return placeState(other).ObservedAt.After(first) })
	require.WithinDuration(t, placeState(h.Service).ObservedAt, placeState(other).ObservedAt, 5*time.Second)

	begin := func() error {
		_, err := other.StartTask(h.ctx(), service.StartTaskRequest{Agent: "papi", Description: "done"})
		return err
	}
	h.world.Fail(fake.List, 1<<30, nil)
	soon("it refuses", func() bool {
		err := begin()
		if err == nil {
			h.until("papi", func(v *fleet.AgentView) bool { return v.Task == nil })
		}
		return reason(err) == fleet.ReasonBackendUnavailable
	})
	h.world.Fail(fake.List, 0, nil)
	soon("it goes on", func() bool { return begin() == nil })
}
