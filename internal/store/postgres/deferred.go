package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// maxDeferred is the number of deferred writes at which they are sent without waiting for the next statement.
const maxDeferred = 100

// deferredWrite is a write that is sent together with the next statement of its transaction, at the latest with the commit.
// This saves a round trip to the database. If the write fails, that statement fails.
type deferredWrite struct {
	query    string
	args     []any
	revision *int64            // is set to the revision that the query returns; nil if the query returns no revision
	explain  func(error) error // converts an error of the database to the error for the caller
}

// failIfNoRow returns a query that runs the update and fails with a division by zero if no row was updated. The query must
// fail by itself, because a COMMIT may follow in the same batch. The update must end with RETURNING revision. ctes is
// put before the update in the WITH clause, for example "name AS (DELETE ...), "; it may be "".
func failIfNoRow(ctes, update string) string {
	return `WITH ` + ctes + `changed AS (` + update + `) SELECT max(revision), 1 / count(*) FROM changed`
}

// read reads the result of the write, and returns the error for the caller.
func (w *deferredWrite) read(r pgx.BatchResults) (err error) {
	if w.revision == nil {
		_, err = r.Exec()
	} else {
		err = r.QueryRow().Scan(w.revision, nil)
	}
	switch {
	case err == nil:
		return nil
	case errorCode(err) == codeDivision:
		err = errors.New("the row to update does not exist")
	}
	return w.explain(err)
}

// execLater defers a write.
func (t *tx) execLater(explain func(error) error, query string, args ...any) error {
	return t.reviseLater(nil, explain, query, args...)
}

// reviseLater defers an update. When the update has run, it sets revision; nil if the query returns no revision. Otherwise query must be
// a result of failIfNoRow.
func (t *tx) reviseLater(revision *int64, explain func(error) error, query string, args ...any) error {
	if t.err != nil {
		return t.err
	}
	t.wrote = true
	if t.deferred = append(t.deferred, deferredWrite{query, args, revision, explain}); len(t.deferred) < maxDeferred {
		return nil
	}
	return t.flush()
}

// flushAfter is how long a transaction may pause. After a longer pause, its deferred writes are sent before the commit, not together
// with it: by then, the database may have ended the transaction. If a write then fails, the transaction can be repeated.
// If the commit fails, it is unknown whether the transaction was committed.
const flushAfter = 100 * time.Millisecond

// paused reports whether the transaction has deferred writes and has paused for longer than flushAfter.
func (t *tx) paused() bool {
	return len(t.deferred) > 0 && t.beginStatement == "" && time.Since(t.sentAt) > flushAfter
}

// flush sends the deferred writes now.
func (t *tx) flush() error {
	err := withAnswerTimeout(t.ctx, answerTimeout, func(ctx context.Context) error {
		b := &pgx.Batch{}
		readBefore := t.queueBefore(b)
		r := t.conn.SendBatch(ctx, b)
		return errors.Join(readBefore(r), r.Close())
	})
	if err != nil {
		return t.fail(contextError(t.ctx, translate(err)))
	}
	return nil
}
