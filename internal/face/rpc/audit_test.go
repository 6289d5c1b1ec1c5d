package rpc

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

type noLines struct{}

func (noLines) Keep(fleet.AuditEntry) {}
func (noLines) Now() time.Time        { return time.Time{} }

// TestCallerGivesUp checks that a call is no failed login if its caller gave up before the caller was identified.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	i := &Interceptor{log: log, lines: noLines{}, failures: newFailures(log, noLines{}), remote: func(context.Context) string { return "" }}
	defer i.failures.close()
	for _, err := range []error{context.Canceled, context.DeadlineExceeded} {
		i.failed(t.Context(), "/fleet.v1.Fleet/ListAgents", &identity{err: err})
	}
	require.Empty(t, out.String())
	i.failed(t.Context(), "/fleet.v1.Fleet/ListAgents", &identity{err: errors.New("no such token")})
	require.Contains(t, out.String(), "login failed")
}
