package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestBulkLeavesRoom checks that a bulk operation uses only half of the workers, so that other calls need not wait for it. No item begins
// after the call is cancelled, and the next call executes the other items.
func TestBulkLeavesRoom(t *testing.T) {
	t.Parallel()
	const workers, agents = 4, 10
	stopping, release := make(chan string, agents), make(chan struct{})
	before := func(ctx context.Context, c fake.Call) error {
		if c.Method != fake.Stop || !strings.HasPrefix(c.Agent.Name, "bulk") {
			return nil
		}
		stopping <- c.Agent.Name
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h := servicetest.New(t, fake.Config{Before: before}, func(c *state.Config) { c.Workers = workers })
	for i := range agents {
		h.Create("bulk-" + string(rune('a'+i)))
	}
	h.Create("other")
	plan, err := h.PlanBulk(h.Context(), fleet.BulkRequest{Operation: fleet.BulkStop, All: true}, "")
	require.NoError(t, err)
	require.Len(t, plan.Items, agents+1)

	ctx, cancel := context.WithCancel(h.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.RunBulk(ctx, plan.ID, 0)
		ended <- err
	}()
	for range workers / 2 {
		<-stopping
	}
	_, _, err = h.StopAgent(h.Context(), "other", "")
	require.NoError(t, err, "another call must not wait for the bulk operation")
	require.Empty(t, stopping, "the bulk operation must leave half of the workers")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	close(release)
	h.WaitAgent("bulk-b", func(v *fleet.AgentView) bool { return v.State == fleet.StateStopped })
	require.Empty(t, stopping, "a cancelled operation must begin no item")

	plan, err = h.RunBulk(h.Context(), plan.ID, 0)
	require.NoError(t, err)
	require.Equal(t, agents+1, plan.Count(fleet.BulkDone), plan.Items)
	again, err := h.RunBulk(h.Context(), plan.ID, 0)
	require.NoError(t, err)
	require.Equal(t, plan, again)
}

// TestBulkRefusesNUL checks that no text of a plan contains a NUL character, which a database cannot read in JSON.
func TestBulkRefusesNUL(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	for field, r := range map[string]fleet.BulkRequest{
		"names":  {Operation: fleet.BulkStop, Names: []string{"papi", "a\x00"}},
		"role":   {Operation: fleet.BulkRestart, Names: []string{"papi"}, Role: "a\x00"},
		"remove": {Operation: fleet.BulkLabel, Names: []string{"papi"}, RemoveLabels: []string{"a\x00"}},
	} {
		_, err := h.PlanBulk(h.Context(), r, "")
		require.Equal(t, fleet.ReasonInvalidArgument, fleet.ReasonOf(err), field)
		require.ErrorContains(t, err, field+" contains a NUL character")
	}
}
