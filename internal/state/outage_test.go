package state_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestOnePlaceIsDown checks that agents of one place work while another place does not answer, and that the known
// agents of both places are listed.
func TestOnePlaceIsDown(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: []fleet.Workspace{
		{ID: "w-old", Name: "old", Owner: "alice", Project: "Web", Role: "coder", State: fleet.StateRunning},
	}})
	b.Fail(fake.List, 1<<30, fleet.Errorf(fleet.ReasonPermissionDenied, "the token is not accepted"))
	h := servicetest.NewOver(t, fake.Config{}, nil, neverSlow, b)
	h.MustCreate("papi", "fake/Setup")
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)

	l, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Agents, 1)
	require.Equal(t, "fake", l.Places[0].Name)
	require.Empty(t, l.Places[0].Problem)
	require.False(t, l.Places[0].ObservedAt.IsZero())
	require.Equal(t, fleet.PlaceState{Name: "second", Problem: "the token is not accepted"}, l.Places[1])
	_, err = h.ShowAgent(h.Context(), "old")
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "the error must not be AGENT_NOT_FOUND, because it is unknown whether the agent exists")
	_, err = h.CreateIn("web", "Web")
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	health := h.Health(t.Context())
	require.True(t, health.Ready)
	require.Len(t, health.Degraded, 1)
	require.Equal(t, "second", health.Degraded[0].Part)

	b.Fail(fake.List, 0, nil)
	h.WaitObserved(func() bool { return len(h.Health(t.Context()).Degraded) == 0 })
	v, err := h.ShowAgent(h.Context(), "old")
	require.NoError(t, err)
	require.Equal(t, "second", v.Place)
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("old", "done").ID).Status)

	b.Fail(fake.List, 1<<30, nil)
	h.WaitObserved(func() bool { return h.Problem(1) != "" })
	_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "old", Description: "done"})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("papi", "done").ID).Status)
	l, err = h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Agents, 2, "agents of a place that is down must be listed")
}

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

// TestPlaceIsDown checks that calls that need the place fail while its host does not answer, and that reads succeed.
func TestPlaceIsDown(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	h.World.Fail(fake.List, 1<<30, nil)
	h.WaitObserved(func() bool { return h.Problem(0) != "" })
	_, err := h.StartTask(h.Context(), service.StartTaskRequest{Agent: "papi", Description: "x"})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	_, err = h.ShowAgent(h.Context(), "papi")
	require.NoError(t, err, "reads must succeed while the host is down")
	h.World.Fail(fake.List, 0, nil)
	h.WaitObserved(func() bool { return h.Problem(0) == "" })
	h.Start("papi", "wait gate")
}
