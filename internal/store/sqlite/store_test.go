package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fleet/internal/fleet"
	"fleet/internal/store/sqlite"
	"fleet/internal/store/sqlite/sqlitetest"
	"fleet/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
