package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
)

// TestNewerSchema opens a database with a newer schema. The store must use it unless the schema says that it needs a
// newer program.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = dial(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	require.NoError(t, err)
	s, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	_, err = appendEvent(t.Context(), s, "old")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = dial(t, url).Exec(t.Context(), `UPDATE compatibility SET oldest = 9999`)
	require.NoError(t, err)
	_, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.ErrorContains(t, err, "needs a Fleet that supports at least version 9999")
}

// TestSchemaOfABranch opens a database whose schema lacks a migration but has a later one. The store must refuse it.
func TestSchemaOfABranch(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = dial(t, url).Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id = 1`)
	require.NoError(t, err)
	_, err = dial(t, url).Exec(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, true)`)
	require.NoError(t, err)
	const want = "but lacks the earlier version 1: another build of Fleet made it, for example from a branch: use that build, or another database"
	_, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.ErrorContains(t, err, want)
	_, err = postgres.Schema(t.Context(), url)
	require.ErrorContains(t, err, want)
}

// TestOpenTogether checks that many replicas can open stores in an empty database at the same time.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() {
			s, err := postgres.Open(context.WithoutCancel(t.Context()), url, postgres.Config{})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		require.NoError(t, <-errs)
	}
}
