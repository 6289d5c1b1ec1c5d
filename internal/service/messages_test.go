package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestMessageToATaskThatStops checks that a message to a task that is being stopped is refused.
func TestMessageToATaskThatStops(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.StopGrace = time.Hour })
	h.Create("papi")
	h.Start("papi", "ignore-interrupt\nwait gate\ndone")
	<-h.FakePlace.Reached("gate")
	ctx, cancel := context.WithCancel(h.Context())
	go func() { _, _, _, _ = h.StopTask(ctx, "papi", "") }()
	h.WaitAgent("papi", func(v *fleet.AgentView) bool { return v.Task != nil && !v.Task.StopRequestedAt.IsZero() })
	cancel()
	_, _, err := h.SendMessage(h.Context(), "papi", "hi", "")
	require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "being stopped")
	h.FakePlace.Release("gate")
}
