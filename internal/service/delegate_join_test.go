package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestNothingLeftForASubagent starts a task for a parent that has a limit of cost and nothing left to give a part of. The task is refused,
// because it would have no limit.
func TestNothingLeftForASubagent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	_, err := h.SetBudget(servicetest.AsAdmin(t.Context()), fleet.Budget{Name: "all", Limit: 1_000_000}, "")
	require.NoError(t, err)
	h.Create("boss")
	h.Create("papi")
	parent, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "boss", Description: "wait gate", Options: fleet.TaskOptions{MaxCostUSD: new(0.000001)}})
	require.NoError(t, err)
	ctx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "alice", Kind: fleet.KindHuman, TaskID: parent.ID})
	_, err = h.StartTask(ctx, service.StartTaskRequest{Agent: "papi", Description: "done"})
	require.Equal(t, fleet.ReasonDelegationRefused, fleet.ReasonOf(err))
	require.ErrorContains(t, err, "too little to give a part to another task")
}
