package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/store/storetest"
	"fleet/internal/waittest"
)

func TestMain(m *testing.M) { waittest.VerifyTestMain(m) }

// reopenable is a store that the suite can reopen.
type reopenable struct {
	*sqlite.Store
	path string
}

// Reopen returns the store itself if it is open, because only one process works on a file.
func (r reopenable) Reopen(t *testing.T) fleet.Store {
	if _, err := r.LastSeq(t.Context()); !errors.Is(err, sqlite.ErrClosed) {
		return r
	}
	return openAt(t, r.path)
}

func openAt(t testing.TB, path string) reopenable {
	t.Helper()
	s, err := sqlite.Open(context.WithoutCancel(t.Context()), path, sqlite.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return reopenable{s, path}
}

func open(t testing.TB) reopenable {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fleet.db")
	require.NoError(t, sqlitetest.Create(path))
	return openAt(t, path)
}

// appendEvent appends an event and returns its Seq.
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

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) fleet.Store { return open(t) })
}

func BenchmarkUpdate(b *testing.B)            { storetest.BenchmarkUpdate(b, open(b)) }
func BenchmarkFindTasks100000(b *testing.B)   { storetest.BenchmarkFindTasks(b, open(b), 100_000) }
func BenchmarkStarts(b *testing.B)            { storetest.BenchmarkStarts(b, open(b)) }
func BenchmarkLastSeq(b *testing.B)           { storetest.BenchmarkLastSeq(b, open(b)) }
func BenchmarkLease(b *testing.B)             { storetest.BenchmarkLease(b, open(b)) }
func BenchmarkLiveAgentViews100(b *testing.B) { storetest.BenchmarkLiveAgentViews(b, open(b), 100) }
func BenchmarkLiveAgentViews10000(b *testing.B) {
	storetest.BenchmarkLiveAgentViews(b, open(b), 10_000)
}
