package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestABrokenAgentIsAlone checks that an error of one agent's workspace does not count against its place: others create agents,
// and do not see the error.
func TestABrokenAgentIsAlone(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Before: func(_ context.Context, c fake.Call) error {
		if c.Method == fake.Delete && c.Agent.Name == "bad" {
			return fleet.Errorf(fleet.ReasonBackendUnavailable, "cannot remove the agent's directory: its files are broken")
		}
		return nil
	}}, func(c *state.Config) { c.PollInterval = time.Hour })
	h.Create("bad")
	_, _, err := h.DeleteAgent(h.Context(), "bad", false, "")
	require.ErrorContains(t, err, "its files are broken", "the owner sees it")
	for i := range 3 {
		h.Create(fmt.Sprintf("good-%d", i))
	}
	require.Empty(t, h.Problem(0))
	h.World.Fail(fake.Delete, 0, nil)
}
