package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestUnusedSessionsAndAgents checks that CloseUnused and RemoveUnusedAgent do nothing if the session got a message or the agent got a
// task after the caller had read it, and that they remove what is still unused.
func TestUnusedSessionsAndAgents(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	v := h.Create("papi")
	opened := time.Now().UTC().Truncate(time.Microsecond)
	x, _, err := h.OpenSession(h.Context(), service.SessionRequest{Session: fleet.Session{
		ID: "s1", Toolset: fleet.ToolsetSessions, Owner: "alice", AgentUID: v.UID, CreatedAt: opened, UsedAt: opened,
	}})
	require.NoError(t, err)
	_, err = h.StartTurn(h.Context(), service.TurnRequest{
		Method: "Send", AgentUID: v.UID, Prompt: "wait here", SessionID: "s1", Message: &service.SessionMessage{At: opened.Add(time.Second)},
	})
	require.NoError(t, err)
	closed, err := h.CloseUnused(h.Context(), x, "idle")
	require.NoError(t, err)
	require.False(t, closed, "the session has a turn")
	require.NoError(t, h.RemoveUnusedAgent(h.Context(), v))
	_, _, _, err = h.StopTask(h.Context(), "papi", "")
	require.NoError(t, err)
	closed, err = h.CloseUnused(h.Context(), x, "idle")
	require.NoError(t, err)
	require.False(t, closed, "the session was used meanwhile")
	require.NoError(t, h.RemoveUnusedAgent(h.Context(), v))

	s, err := h.Session(h.Context(), fleet.ToolsetSessions, "s1")
	require.NoError(t, err)
	require.True(t, s.ClosedAt.IsZero())
	require.Equal(t, fleet.DesiredRunning, s.Agent.Desired)
	closed, err = h.CloseUnused(h.Context(), s.Session, "idle")
	require.NoError(t, err)
	require.True(t, closed)
	require.NoError(t, h.RemoveUnusedAgent(h.Context(), &fleet.AgentView{Agent: *s.Agent}))
	s, err = h.Session(h.Context(), fleet.ToolsetSessions, "s1")
	require.NoError(t, err)
	require.Equal(t, "idle", s.CloseReason)
	require.Equal(t, fleet.DesiredDeleted, s.Agent.Desired)
}
