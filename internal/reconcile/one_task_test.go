package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestDeletionBeginsWithTheEndOfTheTask checks that the transaction that ends the only task of an agent also begins the
// deletion of the agent.
func TestDeletionBeginsWithTheEndOfTheTask(t *testing.T) {
	t.Parallel()
	h, store := servicetest.NewFlaky(t, func(*state.Config) {})
	var late atomic.Bool
	store.OnView(func(ctx context.Context) {
		_ = store.Store.View(ctx, func(tx fleet.ReadTx) error {
			agents, err := tx.Agents(fleet.AgentFilter{})
			for _, a := range agents {
				if a.Desired == fleet.DesiredDeleted && a.State == fleet.StateRunning {
					late.Store(true)
				}
			}
			return err
		})
	})
	v, err := h.Launch(h.Context(), service.LaunchRequest{
		Method: "Test", Toolset: fleet.ToolsetSubagents, Project: "Setup", Spec: "x", Name: "once", Prompt: "done", OneTask: true,
	})
	require.NoError(t, err)
	h.WaitDeleted(v.UID)
	require.False(t, late.Load(), "the agent was still running after its only task had ended")
}
