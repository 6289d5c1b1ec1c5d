package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// openTest opens a store in a new file until the test ends.
func openTest(t *testing.T) *Store {
	t.Helper()
	s, err := Open(context.WithoutCancel(t.Context()), filepath.Join(t.TempDir(), "fleet.db"), Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// running gets a value when a statement calls the SQL function running while a goroutine waits for it.
var running = make(chan struct{})

func init() {
	driver.MustRegisterScalarFunction("running", 0, func(*driver.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
		select {
		case running <- struct{}{}:
		default:
		}
		return int64(1), nil
	})
}

// TestCancelledStatement checks that a connection is not reused after a statement was interrupted, which makes SQLite
// roll back the transaction.
func TestCancelledStatement(t *testing.T) {
	t.Parallel()
	const forever = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) `
	s := openTest(t)
	// The context must end while SQLite works, because SQLite ignores an interruption that comes just before a statement.
	cancelled := func() context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			select {
			case <-running:
			case <-t.Context().Done():
			}
		}()
		return ctx
	}
	err := s.Update(cancelled(), func(x fleet.Tx) error {
		require.NoError(t, x.Append(&fleet.Event{Type: fleet.EventAgentChanged}))
		_, err := x.(*tx).exec(forever + `INSERT INTO leases SELECT 'k', 'me', i, 1 FROM n WHERE running() = 0`)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)

	err = s.View(cancelled(), func(x fleet.ReadTx) error {
		_, err := record.QueryFirst(x.(*baseTx), record.ScanInt, forever+`SELECT max(i) FROM n WHERE running() = 1`)
		return err
	})
	require.ErrorIs(t, err, context.Canceled)

	for range 2 * readerCount() {
		seq, err := s.LastSeq(t.Context())
		require.NoError(t, err)
		require.Zero(t, seq)
	}
	require.NoError(t, s.Update(t.Context(), func(x fleet.Tx) error { return x.Append(&fleet.Event{}) }))
}

// TestViewCannotWrite checks that a view has no methods that write, and that its connection refuses writes.
func TestViewCannotWrite(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	require.NoError(t, s.View(t.Context(), func(x fleet.ReadTx) error {
		_, canWrite := x.(fleet.Tx)
		require.False(t, canWrite)
		return nil
	}))
	err := s.View(t.Context(), func(x fleet.ReadTx) error {
		_, err := record.QueryFirst(x.(*baseTx), record.ScanInt, `DELETE FROM events RETURNING seq`)
		return err
	})
	require.ErrorContains(t, err, "attempt to write a readonly database")
}

// TestUpdateRetriesWhenBusy checks that Update repeats its function after a busy error. A test cannot make SQLite busy
// at a commit, so the function itself returns the error.
func TestUpdateRetriesWhenBusy(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	other, err := Open(t.Context(), s.path, Config{})
	require.NoError(t, err)
	defer other.Close()
	runs := 0
	require.NoError(t, s.Update(t.Context(), func(x fleet.Tx) error {
		runs++
		if runs < 3 {
			return lockError(t, other)
		}
		return x.Append(&fleet.Event{})
	}))
	require.Equal(t, 3, runs)
	seq, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(1), seq)
}

// lockError returns the error of a write while another process holds the write lock. It must be called while s cannot
// get the lock.
func lockError(t *testing.T, s *Store) error {
	t.Helper()
	err := s.writer.with(t.Context(), func(c *conn) error {
		_, err := c.exec(t.Context(), "BEGIN IMMEDIATE")
		return err
	})
	require.True(t, isBusy(err), "%v", err)
	return err
}
