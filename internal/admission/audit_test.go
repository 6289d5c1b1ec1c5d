package admission

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// discardAudit is an AuditLog that keeps nothing.
type discardAudit struct{}

func (discardAudit) Add(fleet.AuditEntry) {}
func (discardAudit) Now() time.Time       { return time.Time{} }

// TestCallerGivesUp checks that a call is not a failed login if its caller gave up before the caller was identified.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	i := &Interceptor{log: log, auditLog: discardAudit{}, throttled: newThrottledLog(log, discardAudit{}), remote: func(context.Context) string { return "" }}
	defer i.throttled.close()
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		i.auditFailedLogin(t.Context(), "/fleet.v1.Fleet/ListAgents", &identity{err: err})
	}
	require.Empty(t, out.String())
	i.auditFailedLogin(t.Context(), "/fleet.v1.Fleet/ListAgents", &identity{err: errors.New("no such token")})
	require.Contains(t, out.String(), "login failed")
}

// memoryAudit keeps the entries in memory.
type memoryAudit struct {
	discardAudit
	entries []fleet.AuditEntry
}

func (m *memoryAudit) Add(e fleet.AuditEntry) { m.entries = append(m.entries, e) }

// TestCallsThatChangeNothing checks that calls that succeed and change nothing cannot fill the audit log.
func TestCallsThatChangeNothing(t *testing.T) {
	t.Parallel()
	audit := &memoryAudit{}
	throttled := newThrottledLog(slog.New(slog.DiscardHandler), audit)
	e := fleet.AuditEntry{Principal: "alice", Method: "UnshareAgent", Outcome: fleet.OutcomeOK}
	logged := 0
	for range maxCallsLogged + 50 {
		if throttled.allowOrCountCall(e) {
			logged++
		}
	}
	throttled.close()
	require.Equal(t, maxCallsLogged, logged)
	e.Count = 50
	require.Equal(t, []fleet.AuditEntry{e}, audit.entries)
}

// TestFailedLoginsByOutcome checks that failed logins that are only counted keep their outcomes.
func TestFailedLoginsByOutcome(t *testing.T) {
	t.Parallel()
	audit := &memoryAudit{}
	throttled := newThrottledLog(slog.New(slog.DiscardHandler), audit)
	for range maxFailedLoginsLogged {
		throttled.recordFailedLogin(t.Context(), fleet.AuditEntry{Outcome: "UNAUTHENTICATED"})
	}
	audit.entries = nil
	for _, outcome := range []string{"UNAUTHENTICATED", "BACKEND_UNAVAILABLE", "BACKEND_UNAVAILABLE"} {
		throttled.recordFailedLogin(t.Context(), fleet.AuditEntry{Method: "ListAgents", Outcome: outcome})
	}
	throttled.close()
	require.ElementsMatch(t, []fleet.AuditEntry{{Outcome: "UNAUTHENTICATED", Count: 1}, {Outcome: "BACKEND_UNAVAILABLE", Count: 2}}, audit.entries)
}
