package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// mostDeferred is how many writes are deferred at the same time.
const mostDeferred = 100

// deferred is a write that is sent with the next statement of its transaction, at the latest with the commit. It spares a round trip to
// the database. A failure is the failure of that statement.
type deferred struct {
	query    string
	args     []any
	revision *int64            // gets the revision of the row that the query returns; nil if it returns none
	explain  func(error) error // returns the error for the caller
}

// existing returns the update, which ends with RETURNING revision, as a query that fails if there is no row: a COMMIT may follow at once.
// before is what precedes the update in a WITH, like "name AS (DELETE ...), "; "" if nothing does.
func existing(before, update string) string {
	return `WITH ` + before + `changed AS (` + update + `) SELECT max(revision), 1 / count(*) FROM changed`
}

// read reads the result.
func (w *deferred) read(r pgx.BatchResults) (err error) {
	if w.revision == nil {
		_, err = r.Exec()
	} else {
		err = r.QueryRow().Scan(w.revision, nil)
	}
	switch {
	case err == nil:
		return nil
	case code(err) == codeDivision:
		err = errors.New("it is not in the store")
	}
	return w.explain(err)
}

// execLater executes a write with the next statement.
func (t *tx) execLater(explain func(error) error, query string, args ...any) error {
	return t.reviseLater(nil, explain, query, args...)
}

// reviseLater executes an update that existing returned with the next statement, and sets the revision.
func (t *tx) reviseLater(revision *int64, explain func(error) error, query string, args ...any) error {
	if t.err != nil {
		return t.err
	}
	t.wrote = true
	if t.later = append(t.later, deferred{query, args, revision, explain}); len(t.later) < mostDeferred {
		return nil
	}
	return t.flush()
}

// flushAfter is how long a transaction may pause before its deferred writes are sent without the commit. The database may have ended the
// transaction meanwhile. If a write fails for that reason, the transaction can be tried again; if a commit fails, it may have succeeded.
const flushAfter = 100 * time.Millisecond

// paused reports whether the transaction has deferred writes that must be sent before the commit.
func (t *tx) paused() bool {
	return len(t.later) > 0 && t.begin == "" && time.Since(t.sent) > flushAfter
}

// flush sends the deferred writes.
func (t *tx) flush() error {
	err := answering(t.ctx, answerLimit, func(ctx context.Context) error {
		b := &pgx.Batch{}
		before := t.queueBefore(b)
		r := t.conn.SendBatch(ctx, b)
		return errors.Join(before(r), r.Close())
	})
	if err != nil {
		return t.failed(plain(t.ctx, translate(err)))
	}
	return nil
}
