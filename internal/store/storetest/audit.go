package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// newAuditEntry returns an entry for a call that was made once.
func newAuditEntry(principal, method, outcome string, at time.Time) fleet.AuditEntry {
	return fleet.AuditEntry{
		Time: at, Principal: principal, Kind: fleet.KindHuman, Method: method, Face: "grpc", Remote: "127.0.0.1:1", Target: "papi", Outcome: outcome, Count: 1,
	}
}

func putAudit(t tb, s fleet.Store, entries ...fleet.AuditEntry) {
	t.Helper()
	require.NoError(t, s.PutAudit(t.Context(), entries))
}

func listAudit(t tb, s fleet.Store, f fleet.AuditFilter, limit int) []fleet.AuditEntry {
	t.Helper()
	got, err := s.Audit(t.Context(), f, limit)
	require.NoError(t, err)
	return got
}

var auditCases = []testCase{
	{"every field comes back, newest first", func(t *testing.T, s fleet.Store) {
		full := fleet.AuditEntry{
			Time: noon, Principal: "Jörg", Kind: fleet.KindAgent, CallerAgent: "helper", Method: "StartAgentTask", Face: "mcp", Remote: "[::1]:80",
			Target: "Papi@alice", AgentName: "Papi", Owner: "alice", RequestID: "r-1", Outcome: "AGENT_BUSY", Count: 7,
		}
		putAudit(t, s, full, newAuditEntry("", "ListAgents", "UNAUTHENTICATED", noon.Add(time.Second)))
		got := listAudit(t, s, fleet.AuditFilter{}, 10)
		require.Len(t, got, 2)
		require.Greater(t, got[0].ID, got[1].ID)
		full.ID = got[1].ID
		require.Equal(t, full, got[1])
		require.Equal(t, got[1:], listAudit(t, s, fleet.AuditFilter{Before: got[0].ID}, 10))
		require.Equal(t, got[:1], listAudit(t, s, fleet.AuditFilter{}, 1))
	}},

	{"filters", func(t *testing.T, s fleet.Store) {
		one, two, three := newAuditEntry("alice", "CreateAgent", "ok", noon), newAuditEntry("bob", "DeleteAgent", "AGENT_NOT_FOUND", noon.Add(time.Second)), newAuditEntry("alice", "StopAgent", "", noon.Add(2*time.Second))
		one.AgentName, one.Owner, two.AgentName = "Papi", "alice", "pApi"
		putAudit(t, s, one, two, three)
		for _, c := range []struct {
			f    fleet.AuditFilter
			want []string
		}{
			{fleet.AuditFilter{Principal: "alice"}, []string{"StopAgent", "CreateAgent"}},
			{fleet.AuditFilter{Principal: "Alice"}, nil},
			{fleet.AuditFilter{Method: "delete_agent"}, []string{"DeleteAgent"}},
			{fleet.AuditFilter{AgentName: "PAPI"}, []string{"DeleteAgent", "CreateAgent"}},
			{fleet.AuditFilter{AgentName: "papi", Owner: "bob"}, []string{"DeleteAgent"}},
			{fleet.AuditFilter{Outcome: fleet.OutcomeOK}, []string{"CreateAgent"}},
			{fleet.AuditFilter{Outcome: fleet.OutcomeUnknown}, []string{"StopAgent"}},
			{fleet.AuditFilter{Outcome: fleet.OutcomeFailed}, []string{"StopAgent", "DeleteAgent"}},
			{fleet.AuditFilter{Outcome: "AGENT_NOT_FOUND", Principal: "bob", AgentName: "papi"}, []string{"DeleteAgent"}},
			{fleet.AuditFilter{Since: noon.Add(time.Second)}, []string{"StopAgent", "DeleteAgent"}},
			{fleet.AuditFilter{Since: noon, Until: noon.Add(time.Second)}, []string{"CreateAgent"}},
		} {
			var got []string
			for _, e := range listAudit(t, s, c.f, 10) {
				got = append(got, e.Method)
			}
			require.Equal(t, c.want, got, "%+v", c.f)
		}
	}},

	{"an entry is written once, in the transaction of the call's first change", func(t *testing.T, s fleet.Store) {
		a := addAgent(t, s)
		call := fleet.NewPendingAuditEntry(newAuditEntry("alice", "StopAgent", "", noon))
		ctx := fleet.WithAudit(t.Context(), call)
		require.NoError(t, s.Update(ctx, func(tx fleet.Tx) error { _, err := tx.Agent(a.UID); return err }))
		require.Empty(t, listAudit(t, s, fleet.AuditFilter{}, 10), "a transaction that only reads must not write an entry")
		require.ErrorIs(t, s.Update(ctx, func(tx fleet.Tx) error {
			require.NoError(t, tx.Update(a))
			return errTest
		}), errTest)
		require.Empty(t, listAudit(t, s, fleet.AuditFilter{}, 10), "a transaction that was rolled back must not write an entry")
		for range 2 {
			require.NoError(t, s.Update(ctx, func(tx fleet.Tx) error { return tx.Append(newEvent(fleet.EventAgentChanged, a, "x")) }))
		}
		got := listAudit(t, s, fleet.AuditFilter{AgentName: "papi"}, 10)
		require.Len(t, got, 1)
		require.Equal(t, "alice", got[0].Owner, "the entry must have the owner of the event's agent")
		require.Empty(t, got[0].Outcome)

		entry := call.Change(func(e *fleet.AuditEntry) { e.Outcome, e.Target = fleet.OutcomeOK, "the agent" })
		require.Equal(t, got[0].ID, entry.ID)
		putAudit(t, s, entry)
		got[0].Outcome, got[0].Target = fleet.OutcomeOK, "the agent"
		require.Equal(t, got, listAudit(t, s, fleet.AuditFilter{}, 10))
	}},

	{"old entries are removed", func(t *testing.T, s fleet.Store) {
		for i := range 5 {
			putAudit(t, s, newAuditEntry("alice", "StopAgent", "ok", noon.Add(time.Duration(i)*time.Hour)))
		}
		requirePruned(t, s, fleet.PruneAudit, noon.Add(3*time.Hour), 2, 2, 1, 0)
		require.Len(t, listAudit(t, s, fleet.AuditFilter{}, 10), 2)
	}},
}
