package postgres_test

import (
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/waittest"
)

// TestLargeAdditions checks that transactions that add many bytes wait for each other, even far from the limit: several of
// them could exceed it together.
func TestLargeAdditions(t *testing.T) {
	t.Parallel()
	url := patientURL(t)
	s := openAt(t, url, postgres.Config{})
	add := func(then func()) error {
		return s.Update(t.Context(), func(tx fleet.Tx) error {
			if _, err := tx.Holdings("alice", fleet.Limits{StoredBytes: 1 << 40}, fleet.HoldingsScope{WithoutAgents: true, Bytes: 16 << 20}); err != nil {
				return err
			}
			then()
			return tx.Insert(&fleet.Request{Principal: "alice", ID: t.Name()})
		})
	}
	counted, commit := make(chan struct{}), make(chan struct{})
	first, second := make(chan error, 1), make(chan error, 1)
	end := sync.OnceFunc(func() { close(commit) })
	defer end()
	go func() {
		first <- add(func() {
			close(counted)
			<-commit
		})
	}()
	<-counted
	go func() { second <- add(func() {}) }()

	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	waittest.Until(t, "a transaction that waits for a lock gives no signal", func() bool {
		require.Empty(t, second, "the second transaction must wait for the first")
		var waiting bool
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE locktype = 'advisory' AND NOT granted AND datname = current_database())`).Scan(&waiting))
		return waiting
	})
	end()
	require.NoError(t, <-first)
	require.Error(t, <-second, "the second transaction must see the request of the first")
}
