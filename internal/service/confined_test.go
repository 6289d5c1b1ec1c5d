package service_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
)

// bare is a place that confines nothing.
type bare struct{ *fake.Place }

func (bare) Unconfined(fleet.Agent) string { return "use Linux 6.12 or later" }

// TestUnconfinedAgentsAreForAdmins checks that only an admin can launch an agent whose programs are not confined.
func TestUnconfinedAgentsAreForAdmins(t *testing.T) {
	t.Parallel()
	store, err := sqlitetest.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"))
	require.NoError(t, err)
	defer store.Close()
	world := fake.New(fake.Config{Traits: fleet.Traits{Drivers: []fleet.Driver{{Name: "fake"}}}})
	defer world.Destroy()
	s := service.New(state.New(store, []fleet.Place{bare{world}}, state.Config{}))
	launch := func(scope fleet.Scope) error {
		ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "ada", Scope: scope})
		_, err := s.Launch(ctx, service.LaunchRequest{Method: "Start", Toolset: fleet.ToolsetLifecycle, Config: &fleet.AgentConfig{Driver: "fake"}, Spec: "x"})
		return err
	}
	err = launch(fleet.ScopeRun)
	require.Equal(t, fleet.ReasonPermissionDenied, fleet.ReasonOf(err), "%v", err)
	require.ErrorContains(t, err, "use Linux 6.12 or later")
	require.NoError(t, launch(fleet.ScopeAdmin))
}
