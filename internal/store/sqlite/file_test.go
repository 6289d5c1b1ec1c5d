package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

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
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
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

func TestUpdateGivesUpWaiting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "fleet.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{BusyTimeout: time.Millisecond})
	require.NoError(t, err)
	defer s.Close()
	free := lock(t, path)
	require.ErrorContains(t, s.Update(t.Context(), func(fleet.Tx) error { return nil }), "another process holds the write lock of "+path)
	_, err = s.Lease(t.Context(), "k", "me", time.Second)
	require.ErrorContains(t, err, "another process holds the write lock")
	free()
	appendEvent(t, s)
}

func TestPayloadsAreKeptCompressed(t *testing.T) {
	t.Parallel()
	s := open(t)
	a := &fleet.Agent{UID: "u1", Name: "papi", State: fleet.StateRunning, Desired: fleet.DesiredRunning}
	task := &fleet.Task{ID: "t1", AgentUID: "u1", Source: fleet.SourceHuman, Status: fleet.TaskRunning}
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		require.NoError(t, tx.Insert(a))
		require.NoError(t, tx.Insert(task))
		return tx.Put("t1", fleet.Payload(make([]byte, 1<<20)))
	}))
	payload := func() (payload []byte, err error) {
		err = s.View(t.Context(), func(tx fleet.ReadTx) error {
			payload, err = tx.Payload("t1", false)
			return err
		})
		return payload, err
	}
	got, err := payload()
	require.NoError(t, err)
	require.Len(t, got, 1<<20)

	db := openRaw(t, s.path)
	var size int
	require.NoError(t, db.QueryRow(`SELECT length(gzip) FROM payloads`).Scan(&size))
	require.Less(t, size, 10_000)

	for _, c := range []struct{ damage, want string }{
		{`UPDATE payloads SET size = 1000`, "its size is not the recorded 1000 bytes"},
		{`UPDATE payloads SET size = 1 << 60`, "its size is not the recorded 1152921504606846976 bytes"},
		{`UPDATE payloads SET size = 1 << 20, gzip = CAST(substr(gzip, 1, length(gzip) - 8) || x'0000000000001000' AS BLOB)`, "invalid checksum"},
		{`UPDATE payloads SET gzip = x'00'`, "read a payload"},
	} {
		_, err = db.Exec(c.damage)
		require.NoError(t, err)
		_, err := payload()
		require.ErrorContains(t, err, c.want, c.damage)
	}
}

func TestEventsAreNeverChanged(t *testing.T) {
	t.Parallel()
	s := open(t)
	appendEvent(t, s)
	_, err := openRaw(t, s.path).Exec(`UPDATE events SET text = 'it was not so'`)
	require.ErrorContains(t, err, "an event is never changed")
}

func appendEvent(t testing.TB, s fleet.Store) int64 {
	t.Helper()
	e := &fleet.Event{Time: time.Now(), Type: fleet.EventAgentChanged, AgentUID: "u1", AgentName: "papi", Owner: "alice"}
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error { return tx.Append(e) }))
	seq, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	return seq
}

// openRaw opens the file without the store.
func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_busy_timeout=5000")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func execSQL(t testing.TB, path, query string) {
	t.Helper()
	_, err := openRaw(t, path).Exec(query)
	require.NoError(t, err)
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
