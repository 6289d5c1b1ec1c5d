package sqlite

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestDamageOfALargeFile checks that the store opens a large file although it is damaged, and refuses writes after its check
// has found the damage.
func TestDamageOfALargeFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	event := func(tx fleet.Tx) error {
		return tx.Append(&fleet.Event{Time: time.Now(), Type: fleet.EventAgentChanged, AgentUID: "u1", AgentName: "papi", Owner: "alice", Text: "something has changed"})
	}
	s, err := Open(t.Context(), path, Config{})
	require.NoError(t, err)
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		for range 2000 {
			require.NoError(t, event(tx))
		}
		return nil
	}))
	require.NoError(t, s.Close())

	reopen := func(log *slog.Logger) *Store {
		s, err := Open(context.WithoutCancel(t.Context()), path, Config{MaxSizeCheckedAtOpen: 1, Logger: log})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		<-s.checker.done
		return s
	}
	s = reopen(nil)
	require.NoError(t, s.Update(t.Context(), event), "the store must accept writes to an undamaged file")
	require.NoError(t, s.Close())

	data, err := os.ReadFile(path)
	require.NoError(t, err)
	begin := len(data) / 4 * 3 // pages of the events, which come after the pages of the schema
	for i := begin; i < begin+8192; i++ {
		data[i] = 0xff
	}
	require.NoError(t, os.WriteFile(path, data, 0o600))
	var log bytes.Buffer
	s = reopen(slog.New(slog.NewTextHandler(&log, nil)))
	require.Contains(t, log.String(), "database is damaged, refusing writes")
	require.ErrorContains(t, s.Update(t.Context(), event), "restore it from a backup")
	require.ErrorContains(t, s.NoteDone(t.Context(), "health", 0), "restore it from a backup")
	_, err = s.LastSeq(t.Context())
	require.NoError(t, err, "reads of undamaged pages must still work")
}

// TestCheckBeforeAnUpgrade checks that a large file is checked for damage before its schema is upgraded.
func TestCheckBeforeAnUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := Open(t.Context(), path, Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	s = &Store{path: path, cfg: Config{MaxSizeCheckedAtOpen: 1, BusyTimeout: time.Second}}
	t.Cleanup(func() { require.NoError(t, s.closeAll()) })
	s.file, err = s.openFile(t.Context())
	require.NoError(t, err)
	db, err := s.openDB(path, map[string][]string{}, 1)
	require.NoError(t, err)
	later, err := s.checkAtOpen(t.Context(), db)
	require.NoError(t, err)
	require.True(t, later)
	_, err = db.ExecContext(t.Context(), `DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`)
	require.NoError(t, err)
	later, err = s.checkAtOpen(t.Context(), db)
	require.NoError(t, err)
	require.False(t, later)
}
