package sqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
)

// TestUpdateWaitsForAnotherProcess checks that writes wait while another process holds the write lock, and that reads do not.
func TestUpdateWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	s := open(t)
	free := lock(t, s.path)
	done := make(chan error, 1)
	go func() { done <- s.Update(t.Context(), func(fleet.Tx) error { return nil }) }()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Update(ctx, func(fleet.Tx) error { return nil }), context.DeadlineExceeded)
	_, err := s.LastSeq(t.Context())
	require.NoError(t, err, "reads must not wait")
	select {
	case err := <-done:
		t.Fatalf("the write must wait for the lock, but it returned: %v", err)
	default:
	}
	free()
	require.NoError(t, <-done)
}

// TestUpdateGivesUpWaiting checks that writes fail after Config.BusyTimeout while another process holds the write lock.
func TestUpdateGivesUpWaiting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{BusyTimeout: time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	free := lock(t, path)
	require.ErrorContains(t, s.Update(t.Context(), func(fleet.Tx) error { return nil }), "another process holds the write lock of "+path)
	_, err = s.AcquireLease(t.Context(), "k", "me", time.Second)
	require.ErrorContains(t, err, "another process holds the write lock")
	free()
	appendEvent(t, s)
}

// lock takes the file's write lock until free is called.
func lock(t testing.TB, path string) (free func()) {
	t.Helper()
	conn, err := openRaw(t, path).Conn(t.Context())
	require.NoError(t, err)
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	return func() {
		_, err := conn.ExecContext(t.Context(), "ROLLBACK")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}
