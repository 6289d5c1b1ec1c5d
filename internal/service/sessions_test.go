package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestUnusedSessionsAndAgents checks that unused sessions and agents are not removed if, after they were found, a session gets
// a message or an agent gets a task.
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

// TestEndedServersAreListedForAnHour checks which servers that do not run are listed.
func TestEndedServersAreListedForAnHour(t *testing.T) {
	t.Parallel()
	var later time.Duration
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.Now = func() time.Time { return time.Now().Add(later) } })
	h.Reconciler.Stop() // it would read the clock too
	for _, name := range []string{"busy", "empty"} {
		_, err := h.Store.RecordHeartbeat(t.Context(), fleet.Replica{Name: name, Machine: name}, true)
		require.NoError(t, err)
	}
	a := &fleet.Agent{UID: "u1", Name: "papi", Owner: "alice", Place: "local@busy", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		require.NoError(t, tx.Insert(a))
		return tx.Append(a.Event(fleet.EventAgentCreated, time.Now(), ""))
	}))
	names := func() (names []string) {
		all, err := h.ListReplicas(servicetest.AsAdmin(t.Context()))
		require.NoError(t, err)
		for _, r := range all {
			names = append(names, r.Name)
		}
		return names
	}
	require.Equal(t, []string{"busy", "empty"}, names())
	later = 2 * time.Hour
	require.Equal(t, []string{"busy"}, names())
}
