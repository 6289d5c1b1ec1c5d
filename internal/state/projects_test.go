package state_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestProjectsOfAnotherServer checks that a project is looked up on another server only if that server exists and the project's
// place is bound to a machine.
func TestProjectsOfAnotherServer(t *testing.T) {
	t.Parallel()
	own := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Name: fleet.PlaceOn("second", "here")}})
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.Replica = "here" }, own)
	for _, name := range []string{"here", "there"} {
		_, err := h.Store.RecordHeartbeat(t.Context(), fleet.Replica{Name: name, Machine: name}, true)
		require.NoError(t, err)
	}
	for project, reason := range map[string]fleet.Reason{
		"second@there/Setup": fleet.ReasonBackendUnavailable, "second@nowhere/Setup": fleet.ReasonProjectNotFound,
		"fake@there/Setup": fleet.ReasonProjectNotFound, "fake@here/Setup": fleet.ReasonProjectNotFound,
		"@there/Setup": fleet.ReasonProjectNotFound, "none@there/Setup": fleet.ReasonProjectNotFound,
	} {
		_, err := h.CreateIn("papi", project)
		require.Equal(t, reason, fleet.ReasonOf(err), "%s: %v", project, err)
	}
	_, err := h.CreateIn("papi", "SECOND@HERE/Setup")
	require.NoError(t, err)
}
