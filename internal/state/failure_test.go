package state_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestOnePlaceHangs checks that calls for agents of one place do not wait for another place, which accepts calls and
// does not answer.
func TestOnePlaceHangs(t *testing.T) {
	t.Parallel()
	var hangs atomic.Bool
	hangs.Store(true)
	b := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Before: func(ctx context.Context, c fake.Call) error {
		if hangs.Load() {
			return servicetest.Hang(ctx)
		}
		return nil
	}})
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.CallTimeout = 300 * time.Millisecond }, b)
	h.MustCreate("papi", "DataOne")
	h.MustCreate("sony", "DataOne")
	require.LessOrEqual(t, b.Calls(fake.Projects), 1, "a place that has not answered must not be called again at once")
	_, err := h.CreateIn("web", "Web")
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	_, places, err := h.ListProjects(h.Context())
	require.NoError(t, err)
	require.Contains(t, places[1].Problem, "did not")
	hangs.Store(false)
	h.WaitObserved(func() bool { return h.Problem(1) == "" })
	h.MustCreate("web", "Web")
}
