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

// keptLines keeps the lines in memory.
type keptLines struct {
	noLines
	lines []fleet.AuditEntry
}

func (k *keptLines) Keep(e fleet.AuditEntry) { k.lines = append(k.lines, e) }

// TestCallsThatChangeNothing checks that calls that succeed and change nothing cannot fill the audit log.
func TestCallsThatChangeNothing(t *testing.T) {
	t.Parallel()
	kept := &keptLines{}
	f := newFailures(slog.New(slog.DiscardHandler), kept)
	e := fleet.AuditEntry{Principal: "alice", Method: "UnshareAgent", Outcome: fleet.OutcomeOK}
	alone := 0
	for range callsLogged + 50 {
		if f.call(e) {
			alone++
		}
	}
	f.close()
	require.Equal(t, callsLogged, alone)
	e.Count = 50
	require.Equal(t, []fleet.AuditEntry{e}, kept.lines)
}

// TestUnknownCallersTakeSlots checks that work for unknown callers waits for a slot too.
func TestUnknownCallersTakeSlots(t *testing.T) {
	t.Parallel()
	slots := NewSlots(fleet.Limits{CallsPerCPU: 1}, 1, slog.New(slog.DiscardHandler), func(time.Duration) {})
	i := &Interceptor{slots: slots}
	leave, err := i.Take(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, slots.Working())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = i.Take(ctx)
	require.Error(t, err)
	leave()
	require.Zero(t, slots.Working())
}
