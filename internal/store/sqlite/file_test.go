package sqlite_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
)

func TestFileModeIsPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the operating system has no file modes")
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "fleet.db")
	s := openAt(t, path)
	appendEvent(t, s)
	for name, mode := range map[string]os.FileMode{
		dir: os.ModeDir | 0o700, filepath.Dir(dir): os.ModeDir | 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600,
	} {
		info, err := os.Stat(name)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
	}
}

func TestFileOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with space.db", "what?mode=ro.db", "50%25.db", "a#b&c=d.db", "ünï'\"`.db", "file:x.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path)
		seq := appendEvent(t, s)
		require.NoError(t, s.Close())
		require.FileExists(t, path)
		got, err := openAt(t, path).LastSeq(t.Context())
		require.NoError(t, err)
		require.Equal(t, seq, got)
	}
}

func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	require.NoError(t, os.WriteFile(text, []byte("this is a text and not a database, however long it may be"), 0o600))
	newer := filepath.Join(dir, "newer.db")
	require.NoError(t, openAt(t, newer).Close())
	execSQL(t, newer, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, 1)`)
	appendEvent(t, openAt(t, newer)) // the newer schema does not require a newer program
	execSQL(t, newer, `UPDATE compatibility SET oldest = 4711`)

	branch := filepath.Join(dir, "branch.db")
	require.NoError(t, openAt(t, branch).Close())
	execSQL(t, branch, `DELETE FROM goose_db_version WHERE version_id = 1`)
	execSQL(t, branch, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (4711, 1)`)

	const fromBranch = "its schema has version 4711 but lacks the earlier version 1: another build of Fleet made it, for example from a branch: use that build, or another data directory"
	for _, c := range []struct{ name, path, want string }{
		{"of a branch", branch, fromBranch},
		{"no file", "", "the path of the store is empty"},
		{"a directory", dir, "is a directory"},
		{"no directory", filepath.Join(text, "fleet.db"), "not a directory"},
		{"not a database", text, "file is not a database"},
		{"of a newer Fleet", newer, "its schema has version 4711, which needs a Fleet that supports at least version 4711, and this Fleet supports versions up to "},
	} {
		s, err := sqlite.Open(t.Context(), c.path, sqlite.Config{})
		require.Nil(t, s, c.name)
		require.ErrorContains(t, err, c.want, c.name)
		require.ErrorContains(t, err, "open the store "+c.path, c.name)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := sqlite.Open(ctx, filepath.Join(dir, "new.db"), sqlite.Config{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestEmptiedOrDamagedFile checks that the store refuses a truncated or damaged database.
func TestEmptiedOrDamagedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	s := openAt(t, whole)
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		for range 2000 {
			if err := tx.Append(&fleet.Event{Type: fleet.EventTaskOutput, AgentUID: "u1", Text: "x"}); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.Close())
	data, err := os.ReadFile(whole)
	require.NoError(t, err)
	require.Greater(t, len(data), 64<<10)
	middle := bytes.Clone(data)
	for i := len(middle) / 2; i < len(middle)/2+8192; i++ {
		middle[i] = 0xff
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"emptied", nil, "the file is empty: restore it from a backup, or remove it to start over"},
		{"cut off", data[:len(data)/2], "the database is damaged ("},
		{"zeros", make([]byte, len(data)), "the database is damaged ("},
		{"overwritten in the middle", middle, "the database is damaged ("},
	} {
		path := filepath.Join(dir, c.name+".db")
		require.NoError(t, os.WriteFile(path, c.data, 0o600))
		_, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		require.ErrorContains(t, err, c.want, c.name)
		require.ErrorContains(t, err, "restore it from a backup", c.name)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, len(c.data), len(after), "%s: the file must not change", c.name)
	}

	require.NoError(t, os.WriteFile(filepath.Join(dir, "gone.db-wal"), []byte("a log"), 0o600))
	_, err = sqlite.Open(t.Context(), filepath.Join(dir, "gone.db"), sqlite.Config{})
	require.ErrorContains(t, err, "the file does not exist, but its log")

	require.NoError(t, os.Remove(whole))
	openAt(t, whole) // a removed file is created again
	left, err := filepath.Glob(filepath.Join(dir, ".*.tmp-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestConcurrentOpenOfNewFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	appendEvent(t, openAt(t, path))
}
