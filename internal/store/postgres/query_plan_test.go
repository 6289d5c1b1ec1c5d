package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/store/postgres"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// waitAlone waits until conn is the only connection to its database. By then, the other connections have written their
// statistics.
func waitAlone(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	waittest.Until(t, "nothing signals that the connections have ended", func() bool {
		var others int
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
			AND backend_type = 'client backend'`).Scan(&others))
		return others == 0
	})
}

// TestRunningTaskIsFoundByItsAgent lets the database plan the query for the running task of an agent while no task runs. Then all
// indexes of running tasks look equally good, but the query must use the index tasks_current.
func TestRunningTaskIsFoundByItsAgent(t *testing.T) {
	t.Parallel()
	url := patientURL(t)
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	const agents = 200
	now := time.Now()
	require.NoError(t, s.Update(t.Context(), func(tx fleet.Tx) error {
		for i := range agents {
			uid := fmt.Sprint("u", i)
			a := &fleet.Agent{UID: uid, Name: uid, Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now}
			task := &fleet.Task{ID: uid, AgentUID: uid, AgentName: uid, Owner: "alice", Source: fleet.SourceHuman, Status: fleet.TaskCompleted, CreatedAt: now, EndedAt: now}
			if err := errors.Join(tx.Insert(a), tx.Insert(task)); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.Close())
	conn := dial(t, url)
	waitAlone(t, conn)
	_, err = conn.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)
	scans := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = 'tasks_current'`).Scan(&n))
		return n
	}
	before := scans()
	s, err = postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	require.NoError(t, s.View(t.Context(), func(tx fleet.ReadTx) error {
		for i := range agents {
			_, err := tx.RunningTask(fmt.Sprint("u", i))
			_, viewsErr := tx.AgentViews(fleet.AgentViewFilter{UIDs: []string{fmt.Sprint("u", i)}})
			if err := errors.Join(err, viewsErr); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, s.Close())
	waitAlone(t, conn)
	require.Equal(t, 2*agents, scans()-before)
}

// TestRowsAreFoundByKey lets the database analyse empty tables and plan statements for them. The table of leases, for example,
// is empty most of the time. When the tables have rows later, the statements must still find rows by key.
func TestRowsAreFoundByKey(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	conn := dial(t, url)
	waitAlone(t, conn) // connections of earlier tests record their scans when they end
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `VACUUM ANALYZE`)
	require.NoError(t, err)
	var before int64
	const scans = `SELECT coalesce(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables WHERE relname IN ('agents', 'tasks', 'leases')`
	require.NoError(t, conn.QueryRow(t.Context(), scans).Scan(&before))
	const times = 30
	now := time.Now()
	for i := range times {
		key := fmt.Sprint("agent/", i)
		epoch, err := s.AcquireLease(t.Context(), key, "r1", time.Hour)
		require.NoError(t, err)
		leaseCtx := fleet.WithLease(t.Context(), fleet.Lease{Key: key, Epoch: epoch})
		require.NoError(t, s.Update(leaseCtx, func(tx fleet.Tx) error {
			uid := fmt.Sprint("u", i)
			a := &fleet.Agent{UID: uid, Name: uid, Owner: "alice", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now}
			task := &fleet.Task{ID: uid, AgentUID: uid, AgentName: uid, Owner: "alice", Source: fleet.SourceHuman, Status: fleet.TaskRunning, CreatedAt: now, StartedAt: now}
			if err := errors.Join(tx.Insert(a), tx.Insert(task)); err != nil {
				return err
			}
			_, err := tx.RunningTask(uid)
			return err
		}))
		require.NoError(t, s.ReleaseLease(t.Context(), key, "r1"))
	}
	require.NoError(t, s.Close())
	waitAlone(t, conn)
	var after int64
	require.NoError(t, conn.QueryRow(t.Context(), scans).Scan(&after))
	require.Less(t, after-before, int64(times), "statements of updates must not read whole tables")
}
