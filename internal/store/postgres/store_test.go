package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/store/storetest"
	"fleet/internal/waittest"
)

func TestMain(m *testing.M) { waittest.VerifyTestMain(serverMain{m}) }

// serverMain runs the tests, and then stops their server.
type serverMain struct{ *testing.M }

func (m serverMain) Run() int { return pgtest.Run(m.M) }

// reopenable is a store that the suite can reopen.
type reopenable struct {
	*postgres.Store
	url string
}

func (r reopenable) Reopen(t *testing.T) fleet.Store { return openAt(t, r.url, postgres.Config{}) }

func openAt(t testing.TB, url string, cfg postgres.Config) reopenable {
	t.Helper()
	s, err := postgres.Open(context.WithoutCancel(t.Context()), url, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return reopenable{s, url}
}

func open(t testing.TB) reopenable {
	t.Helper()
	return openAt(t, patientURL(t), postgres.Config{})
}

// patientURL returns the URL of an empty database whose transactions may pause for ten minutes. On a slow machine, a test may need longer
// between two statements than the default allows.
func patientURL(t testing.TB) string {
	t.Helper()
	return pgtest.URL(t) + "&idle_in_transaction_session_timeout=600000"
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
