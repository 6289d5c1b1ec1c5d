package state_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestPlaceOfToolsetIsNotConfigured deletes an agent while its place is not configured. It checks that the agent stays
// until the place is configured again, and is deleted then.
func TestPlaceOfToolsetIsNotConfigured(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(b))
	r := servicetest.LaunchRequest("")
	r.OneTask = false
	v, err := h.Launch(h.Context(), r)
	require.NoError(t, err)
	_, err = h.StartTurn(h.Context(), service.TurnRequest{Method: "Test", AgentUID: v.UID, Prompt: "echo begun\nwait gate\ndone well"})
	require.NoError(t, err)
	h.Config.OtherPlaces = nil
	h.Restart()
	require.NoError(t, h.Replica().RemoveAgent(h.Context(), v.UID))
	svc := h.Service // Never may still call the function after it has returned
	require.Never(t, func() bool {
		views, _, err := svc.AgentsByUID(h.Context(), []string{v.UID})
		return err != nil || !views[0].DeletedAt.IsZero()
	}, 300*time.Millisecond, 20*time.Millisecond)
	servicetest.WithToolsetPlace(b)(&h.Config)
	h.Restart()
	h.WaitDeleted(v.UID)
}

// TestPlaceIsNotConfigured removes a place from the configuration. It checks that its agents are still listed with the
// reason, that they refuse tasks and restarts, and that they work again once the place is back.
func TestPlaceIsNotConfigured(t *testing.T) {
	t.Parallel()
	b := servicetest.SecondPlace(t, fake.Config{})
	h := servicetest.New(t, fake.Config{}, nil, b)
	h.MustCreate("web", "Web")
	h.MorePlaces = nil
	h.Restart()
	l, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Agents, 1)
	require.Equal(t, "second", l.Agents[0].Place)
	require.Len(t, l.Places, 2)
	require.Contains(t, l.Places[1].Problem, `the place "second" is not configured`)
	l, err = h.ListAgents(servicetest.As(t.Context(), "bob"), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, l.Places, 1, "others must not see the places of agents that they cannot see")
	_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "web", Description: "done"})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))
	_, _, err = h.RestartAgent(h.Context(), service.RestartAgentRequest{Agent: "web", Role: "coder"})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))

	h.MorePlaces = []fleet.Place{b}
	h.Restart()
	require.Equal(t, fleet.TaskCompleted, h.WaitTask(h.Start("web", "done").ID).Status)
}
