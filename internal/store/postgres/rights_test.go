package postgres_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
)

// requireRefused checks that the store refuses the database at the URL with an error that contains want.
func requireRefused(t *testing.T, url, want string) {
	t.Helper()
	_, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.ErrorContains(t, err, want)
	_, err = postgres.Examine(t.Context(), url)
	require.ErrorContains(t, err, want, "fleet doctor and fleet serve must give the same reason")
}

// TestRights checks that the store refuses a role that lacks rights, and a database that only allows reads.
func TestRights(t *testing.T) {
	t.Parallel()
	pgtest.SkipUnlessEnabled(t)
	server, err := pgtest.Start("")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop()) })
	require.NoError(t, server.Exec(t.Context(), "postgres", `CREATE ROLE reader LOGIN`))
	urlAs := func(role string) string {
		return strings.Replace(server.URL("postgres"), "user=fleet", "user="+role, 1)
	}
	require.NotEqual(t, urlAs("fleet"), urlAs("reader"))

	requireRefused(t, urlAs("reader"), "the role may not create tables: run `fleet migrate up`")
	openAt(t, urlAs("fleet"), postgres.Config{})
	require.NoError(t, server.Exec(t.Context(), "postgres", `GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`))
	requireRefused(t, urlAs("reader"), "the role may not read and write all tables")
	require.NoError(t, server.Exec(t.Context(), "postgres", `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO reader`))
	openAt(t, urlAs("reader"), postgres.Config{})

	readOnlyURL := urlAs("fleet") + "&default_transaction_read_only=on"
	requireRefused(t, readOnlyURL, "the database only allows reads")
	_, err = postgres.Open(t.Context(), readOnlyURL, postgres.Config{})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err), "a standby may be promoted")
}
