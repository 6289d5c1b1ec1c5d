package postgres_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
)

// TestImportedTables checks that Import fills every table of the schema, except tables that servers fill for themselves.
func TestImportedTables(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	own := []string{ // servers fill these for themselves
		"goose_db_version", "compatibility", "inbox", "sequencer", "leases", "replicas", "stored_changes",
	}
	rows, err := dial(t, url).Query(t.Context(), `SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'`)
	require.NoError(t, err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	tables = slices.DeleteFunc(tables, func(name string) bool { return slices.Contains(own, name) })
	require.ElementsMatch(t, postgres.ImportedTables, tables)
}
