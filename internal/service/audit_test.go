package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestAuditLineIsInTheTransaction checks that the audit line of a change is stored together with the change, so that a
// crash does not lose the line. The outcome of the line is unknown until the call has ended.
func TestAuditLineIsInTheTransaction(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, nil)
	h.Create("papi")
	start := func() (*fleet.AuditLine, error) {
		line := fleet.NewAuditLine(fleet.AuditEntry{Principal: "alice", Method: "StartAgentTask", Count: 1})
		_, err := h.StartTask(fleet.WithAudit(h.Context(), line), service.StartTaskRequest{Agent: "papi", Description: "listen"})
		return line, err
	}
	line, err := start()
	require.NoError(t, err)
	got, next, err := h.ListAudit(servicetest.AsAdmin(t.Context()), service.ListAuditRequest{AuditFilter: fleet.AuditFilter{Outcome: fleet.OutcomeUnknown}})
	require.NoError(t, err)
	require.Empty(t, next)
	require.Len(t, got, 1)
	require.Equal(t, "papi", got[0].AgentName)
	require.Equal(t, "alice", got[0].Owner)

	end := func(l *fleet.AuditLine, err error) {
		h.AuditLog().Add(l.Change(func(e *fleet.AuditEntry) {
			if e.Outcome = fleet.OutcomeOK; err != nil {
				e.Outcome = string(fleet.ReasonOf(err))
			}
		}))
	}
	end(line, nil)
	refused, err := start()
	require.Error(t, err)
	end(refused, err)
	got, _, err = h.ListAudit(servicetest.AsAdmin(t.Context()), service.ListAuditRequest{})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, string(fleet.ReasonAgentBusy), got[0].Outcome)
	require.Equal(t, fleet.OutcomeOK, got[1].Outcome)
}
