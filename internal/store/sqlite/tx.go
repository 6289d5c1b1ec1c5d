package sqlite

import (
	"cmp"
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var errEnded = errors.New("the transaction has ended: use it only inside its function")

// baseTx is the transaction of a view, and the base of tx. It holds the context of its call, because the methods of fleet.ReadTx
// have no context.
type baseTx struct {
	record.ReadTx
	ctx  context.Context //nolint:containedctx // see above
	conn *conn
	err  error // the first failure, or errEnded
}

// tx is a write transaction.
type tx struct {
	baseTx
	record.Tx
	wrote      bool
	full       bool         // the disk is full: the transaction may only end or remove things
	firstEvent *fleet.Event // the first event that the transaction has appended
	lastEvent  int64        // the Seq of the last event that the transaction has appended; 0 if there is none
}

// Update runs fn in a transaction, see fleet.Store. An Update inside fn deadlocks.
func (s *Store) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	return s.write(ctx, func(c *conn) error {
		t := &tx{baseTx: baseTx{ctx: ctx, conn: c}}
		t.baseTx.DB, t.DB = t, t
		_, t.full = s.space.full()
		settle := func(error) {}
		err := t.run("BEGIN IMMEDIATE", func() error {
			if err := t.checkLease(); err != nil {
				return err
			}
			if err := fn(t); err != nil {
				return err
			}
			if t.err != nil || !t.wrote {
				return nil
			}
			var err error
			if settle, err = t.addAudit(); err == nil && t.lastEvent > 0 {
				s.newestSeq.Store(unknownSeq) // until the commit has succeeded
			}
			return err
		})
		settle(err)
		if err != nil {
			return err
		}
		if t.lastEvent > 0 {
			s.newestSeq.Store(t.lastEvent)
		}
		if t.wrote {
			s.subs.Notify()
		}
		s.checkpointer.notifyCommit()
		return nil
	})
}

// View runs fn on one consistent state, see fleet.Store.
func (s *Store) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	return s.read(ctx, func(c *conn) error {
		t := &baseTx{ctx: ctx, conn: c}
		t.DB = t
		return t.run("BEGIN", func() error { return fn(t) })
	})
}

// write calls f with the write connection, and again while another process holds the write lock. If the disk is full, its error
// wraps fleet.ErrStoreFull. It does not call f after the checker has found damage.
func (s *Store) write(ctx context.Context, f func(*conn) error) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	if err := s.checker.err(); err != nil {
		return err
	}
	err := s.writer.with(ctx, func(c *conn) error {
		return s.retry(ctx, func() error { return f(c) })
	})
	if isDiskFull(err) {
		return errors.Join(fleet.ErrStoreFull, err)
	}
	return err
}

// writeTx calls f in a write transaction.
func (s *Store) writeTx(ctx context.Context, f func(*baseTx) error) error {
	return s.write(ctx, func(c *conn) error {
		t := &baseTx{ctx: ctx, conn: c}
		return t.run("BEGIN IMMEDIATE", func() error { return f(t) })
	})
}

// read calls f with a read connection.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	return s.reader.with(ctx, f)
}

// queryInt64 returns the number that the query selects on a read connection.
func (s *Store) queryInt64(ctx context.Context, query string) (n int64, err error) {
	err = s.read(ctx, func(c *conn) error {
		n, err = c.queryInt64(ctx, query)
		return contextError(ctx, err)
	})
	return n, err
}

// run calls f between begin and COMMIT. It rolls back if f fails, panics or ends its goroutine, if the context ends
// before the commit, or if the commit fails.
func (t *baseTx) run(begin string, f func() error) error {
	uncancelled := context.WithoutCancel(t.ctx)
	if _, err := t.conn.exec(t.ctx, begin); err != nil {
		_, _ = t.conn.exec(uncancelled, "ROLLBACK") // an interrupted BEGIN may have taken effect; otherwise this fails
		return contextError(t.ctx, err)
	}
	committed := false
	defer func() {
		t.err = errEnded
		if committed {
			return
		}
		if _, err := t.conn.exec(uncancelled, "ROLLBACK"); err != nil {
			t.conn.broken = true // for example, SQLite has rolled back by itself
		}
	}()
	if err := f(); err != nil {
		return err
	}
	if err := cmp.Or(t.err, t.ctx.Err()); err != nil {
		return err
	}
	if _, err := t.conn.exec(uncancelled, "COMMIT"); err != nil {
		return err
	}
	committed = true
	return nil
}

// checkSpace returns fleet.ErrStoreFull if the disk is too full to add something. The transaction can continue after that.
func (t *tx) checkSpace() error {
	if t.full {
		return fleet.ErrStoreFull
	}
	return nil
}

// fail records err as the error of the transaction unless there is an earlier one, and returns err. The transaction
// cannot commit afterwards.
func (t *baseTx) fail(err error) error {
	t.err = cmp.Or(t.err, err)
	return err
}

// scanner is a short name for record.Scanner.
type scanner = record.Scanner

// forEachRow calls f with every row of the query's result until f fails.
func (t *baseTx) forEachRow(f func(scanner) error, query string, args ...any) error {
	if t.err != nil {
		return t.err
	}
	rows, err := t.conn.query(t.ctx, query, args...)
	if err != nil {
		return contextError(t.ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return contextError(t.ctx, err)
		}
	}
	return contextError(t.ctx, errors.Join(rows.Err(), rows.Close()))
}

// exec executes a write and returns the rowid of the row that was inserted last.
func (t *tx) exec(query string, args ...any) (id int64, err error) {
	if t.err != nil {
		return 0, t.err
	}
	t.wrote = true
	r, err := t.conn.exec(t.ctx, query, encode(args)...)
	if err != nil {
		return 0, contextError(t.ctx, err)
	}
	return r.LastInsertId()
}

// revise updates a row and returns the number that the query returns, which is the new revision. It returns an error if
// the row does not exist.
func (t *tx) revise(query string, args ...any) (revision int64, err error) {
	t.wrote = true
	err = t.forEachRow(func(row scanner) error { return row.Scan(&revision) }, query, encode(args)...)
	if err == nil && revision == 0 {
		err = errors.New("the row to update does not exist")
	}
	return revision, err
}

// encode replaces the times and lists among the arguments with the form in which they are stored or compared. It changes args
// and returns it.
func encode(args []any) []any {
	for i, arg := range args {
		switch v := arg.(type) {
		case time.Time:
			args[i] = micros(v)
		case record.TextList:
			args[i] = jsonList(v)
		}
	}
	return args
}

// micros returns the time in the form in which it is stored: microseconds since 1970.
func micros(t time.Time) int64 { return t.UnixMicro() }
