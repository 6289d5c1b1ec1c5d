package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestAuditEntryIsInTheTransaction checks that the audit entry of a change is stored together with the change, so that a
// crash does not lose the entry. The outcome of the entry is unknown until the call has ended.
func TestAuditEntryIsInTheTransaction(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	start := func() (*fleet.PendingAuditEntry, error) {
		entry := fleet.NewPendingAuditEntry(fleet.AuditEntry{Principal: "alice", Method: "StartAgentTask", Count: 1})
		_, err := h.StartTask(fleet.WithAudit(h.Context(), entry), service.StartTaskRequest{Agent: "papi", Description: "listen"})
		return entry, err
	}
	entry, err := start()
	require.NoError(t, err)
	got, next, err := h.ListAudit(servicetest.AsAdmin(t.Context()), service.ListAuditRequest{AuditFilter: fleet.AuditFilter{Outcome: fleet.OutcomeUnknown}})
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, got, 1)
	require.Equal(t, "papi", got[0].AgentName)
	require.Equal(t, "alice", got[0].Owner)

	end := func(entry *fleet.PendingAuditEntry, err error) {
		h.AuditLog().Add(entry.Change(func(e *fleet.AuditEntry) {
			if e.Outcome = fleet.OutcomeOK; err != nil {
				e.Outcome = string(fleet.ReasonOf(err))
			}
		}))
	}
	end(entry, nil)
	refusedEntry, err := start()
	require.Error(t, err)
	end(refusedEntry, err)
	got, _, err = h.ListAudit(servicetest.AsAdmin(t.Context()), service.ListAuditRequest{})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, string(fleet.ReasonAgentBusy), got[0].Outcome)
	require.Equal(t, fleet.OutcomeOK, got[1].Outcome)
}
