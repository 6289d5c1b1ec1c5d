package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestNothingLeftForAChild delegates a task whose parent has a limit of cost that is too small to be divided. The task is refused, because
// it would have no limit.
func TestNothingLeftForAChild(t *testing.T) {
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

// TestDelegatedUnderALabelBudget gives a task the whole budget for a label. A task below it with the label must start, because the budget
// has reserved its cost for its parent. Another task with the label must wait.
func TestDelegatedUnderALabelBudget(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	_, err := h.SetBudget(servicetest.AsAdmin(t.Context()), fleet.Budget{Name: "web", Scope: fleet.BudgetLabel, Value: "team=web", Limit: 1_000_000}, "")
	require.NoError(t, err)
	for _, name := range []string{"boss", "papi", "sony"} {
		h.Create(name)
	}
	h.Reconciler.Stop()
	r := service.StartTaskRequest{Agent: "boss", Description: "done", Labels: fleet.Labels{"team": "web"}, Options: fleet.TaskOptions{MaxCostUSD: new(1.0)}}
	parent, err := h.StartTask(h.Context(), r)
	require.NoError(t, err)
	r.Agent, r.Options = "sony", fleet.TaskOptions{}
	other, err := h.QueueTask(h.Context(), service.QueueTaskRequest{StartTaskRequest: r})
	require.NoError(t, err)
	r.Agent = "papi"
	delegatingCtx := fleet.WithPrincipal(t.Context(), fleet.Principal{Name: "alice", Kind: fleet.KindHuman, TaskID: parent.ID})
	child, err := h.QueueTask(delegatingCtx, service.QueueTaskRequest{StartTaskRequest: r})
	require.NoError(t, err)
	_, err = h.Dispatch(t.Context())
	require.NoError(t, err)
	for id, want := range map[string]fleet.TaskStatus{other.ID: fleet.TaskPending, child.ID: fleet.TaskRunning} {
		shown, err := h.ShowTask(h.Context(), id, nil)
		require.NoError(t, err)
		require.Equal(t, want, shown.Status)
	}
}
