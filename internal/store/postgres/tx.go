package postgres

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

var errEnded = errors.New("the transaction has ended: use it only inside its function")

// errEventsPending means that a view shows changes whose events are not in the log yet. The view must be repeated.
var errEventsPending = errors.New("the events of the view are not in the log yet")

const (
	beginUpdate = `BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE`
	beginView   = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY`
	// holdLease divides by zero if the lease was lost. It must fail by itself, because the COMMIT is in the same batch. It
	// locks the lease, so that nobody else can take it before the commit. The lock also stops renewLeases, so it is taken
	// last: a transaction can wait long for other locks.
	holdLease = `SELECT 1 / count(*) FROM (SELECT 1 FROM leases WHERE key = $1 AND epoch = $2 FOR SHARE) AS held`
)

// endTimeout limits how long a COMMIT or ROLLBACK may take. The end of the caller's context does not interrupt it.
const endTimeout = 30 * time.Second

// baseTx is the transaction of a view, and the base of tx. It holds the context of its call, because the methods of fleet.ReadTx
// have no context.
type baseTx struct {
	record.ReadTx
	ctx             context.Context //nolint:containedctx // see above
	conn            *pgxpool.Conn
	beginStatement  string // the statement that begins the transaction; "" once it was sent
	isView          bool
	lastTry         bool  // this is the last try of the view, so errEventsPending must not end it
	inboxHadEvents  bool  // when the view began, the inbox had events, so the view may show changes whose events are not in the log yet
	err             error // the first failure, or errEnded
	locks           locks
	nearLimit       bool            // a number is near its limit, so it must be counted with an exclusive lock; see countLocked
	maxTransactions int             // how many transactions the server can have at the same time
	deferred        []deferredWrite // writes to send with the next statement
	sentAt          time.Time       // when the last statement was sent
}

// tx is a write transaction.
type tx struct {
	baseTx
	record.Tx
	wrote  bool
	added  bool // the transaction has added something that needs space
	disk   *diskState
	events []*fleet.Event // the appended events, which are written at the commit
}

// Update runs fn in a transaction, see fleet.Store.
func (s *Store) Update(ctx context.Context, fn func(fleet.Tx) error) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	var t *tx
	var ids []int64
	conflicted, nearLimit := false, false
	err := s.retry(ctx, func() (again bool, err error) {
		t = &tx{baseTx: baseTx{ctx: ctx, beginStatement: beginUpdate, nearLimit: nearLimit, maxTransactions: s.maxTransactions}, disk: &s.disk}
		t.baseTx.DB, t.DB = t, t
		if conflicted {
			t.locks.lockRetry()
		}
		defer func() { conflicted = isConflict(err) }()
		do := func() error {
			err := fn(t)
			if err == nil && t.paused() {
				err = t.flush()
			}
			return err
		}
		again, err = s.run(&t.baseTx, do, func() (err error) {
			ids, err = t.commit()
			return err
		})
		nearLimit = t.nearLimit
		return again || errors.Is(err, errNearLimit), err
	})
	s.disk.recordWrite(err, t != nil && t.added)
	switch {
	case fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable || fleet.ReasonOf(err) == fleet.ReasonInternal:
		return err
	case err != nil || !t.wrote && len(ids) == 0:
		return cmp.Or(s.awaitReadEvents(ctx, t), err)
	case len(ids) == 0:
		s.notifier.notifyCommit()
		return nil
	}
	return s.awaitLog(ctx, ids)
}

// awaitReadEvents is for a transaction that has changed nothing. It waits until the log has the events of all changes that the
// transaction has read. Otherwise the caller could learn of changes that later reads of the log do not show, because
// a replica may have died between a commit and the move of its events to the log.
func (s *Store) awaitReadEvents(ctx context.Context, t *tx) error {
	if t.beginStatement != "" {
		return nil // the transaction has read nothing
	}
	var hasEvents bool
	err := withAnswerTimeout(ctx, answerTimeout, func(ctx context.Context) error {
		return s.reader.QueryRow(ctx, inboxHasEvents).Scan(&hasEvents)
	})
	if err == nil && hasEvents {
		err = s.mover.moveAll(ctx)
	}
	return contextError(ctx, translate(err))
}

// View runs fn on one consistent state, see fleet.Store.
func (s *Store) View(ctx context.Context, fn func(fleet.ReadTx) error) error {
	if err := s.calls.Begin(); err != nil {
		return err
	}
	defer s.calls.End()
	for tries := 1; ; tries++ {
		var t *baseTx
		err := s.retry(ctx, func() (again bool, err error) {
			t = &baseTx{ctx: ctx, beginStatement: beginView, isView: true, lastTry: tries == maxTries}
			t.DB = t
			return s.run(t, func() error { return fn(t) }, t.commit)
		})
		again := errors.Is(err, errEventsPending)
		if again || err == nil && t.inboxHadEvents {
			// The caller must not learn of a change before its events are in the log, because later reads of the log must show
			// it.
			if err := s.mover.moveAll(ctx); err != nil {
				return err
			}
		}
		if !again {
			return err
		}
	}
}

// maxTries limits how often retry calls its function, and how often View repeats a view because of errEventsPending.
const maxTries = 20

// retry calls f until it returns again = false or ctx ends, at most maxTries times, with growing pauses. f returns again = true
// after a conflict with another transaction, if the connection was lost before the commit, or after errNearLimit.
func (s *Store) retry(ctx context.Context, f func() (again bool, err error)) error {
	for tries := 1; ; tries++ {
		again, err := f()
		if errors.Is(err, errNoAnswer) || isReadOnly(err) {
			s.replaceConns()
		}
		if !again || tries == maxTries || ctx.Err() != nil {
			return contextError(ctx, err)
		}
		pause := time.Duration(rand.Int64N(int64(min(time.Millisecond<<tries, 200*time.Millisecond)))) //nolint:gosec // to spread retries
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// run gives t a connection and calls f and then commit. It rolls back if f fails, panics or ends its goroutine, if the
// context ends before the commit, or if commit fails. again says that a repetition may succeed.
func (s *Store) run(t *baseTx, f, commit func() error) (again bool, err error) {
	if err := t.ctx.Err(); err != nil {
		return false, err
	}
	pool := s.reader
	if !t.isView {
		pool = s.writer
		permit, err := s.turns.Acquire(t.ctx)
		if err != nil {
			return false, err
		}
		defer s.turns.Release(t.ctx, permit)
	}
	if t.conn, err = pool.Acquire(t.ctx); err != nil {
		return false, translate(err)
	}
	committed := false
	defer func() {
		t.err = errEnded
		if !committed && t.beginStatement == "" {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), endTimeout)
			_, _ = t.conn.Exec(ctx, "ROLLBACK") // the pool closes a connection that is still in a transaction
			cancel()
		}
		t.conn.Release()
	}()
	if err := f(); err != nil || t.err != nil {
		if t.err != nil && isRetryable(t.err) {
			return true, t.err
		}
		if errors.Is(t.err, errEventsPending) {
			return false, errEventsPending
		}
		return false, cmp.Or(err, t.err)
	}
	if err := t.ctx.Err(); err != nil {
		return false, err
	}
	if err := commit(); err != nil {
		return isConflict(err), translate(err)
	}
	committed = true
	return false, nil
}

// commit ends the transaction of a view.
func (t *baseTx) commit() error {
	if t.beginStatement != "" {
		return nil // the view has read nothing
	}
	return withAnswerTimeout(context.WithoutCancel(t.ctx), endTimeout, func(ctx context.Context) error {
		_, err := t.conn.Exec(ctx, "COMMIT")
		return err
	})
}

// commit writes the events to the inbox and commits. It returns the ids of the events in the inbox.
func (t *tx) commit() (ids []int64, err error) {
	if len(t.events) > 0 {
		t.wrote = true
	}
	if t.beginStatement != "" && !t.wrote {
		return nil, nil
	}
	b := &pgx.Batch{}
	readBefore := t.queueBefore(b)
	if len(t.events) > 0 {
		b.Queue(insertEvents, eventArgs(t.events)...)
	}
	readAudit, settle := t.queueAudit(b)
	defer func() { settle(err) }()
	readLease := t.queueLease(b)
	b.Queue("COMMIT")
	err = withAnswerTimeout(context.WithoutCancel(t.ctx), endTimeout, func(ctx context.Context) (err error) {
		r := t.conn.SendBatch(ctx, b)
		defer func() { err = errors.Join(err, r.Close()) }()
		if err := readBefore(r); err != nil {
			return err
		}
		if len(t.events) > 0 {
			rows, err := r.Query()
			if err != nil {
				return err
			}
			if ids, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
				return err
			}
		}
		if err := readAudit(r); err != nil {
			return err
		}
		if err := readLease(r); err != nil {
			return err
		}
		tag, err := r.Exec()
		if err == nil && tag.String() != "COMMIT" {
			err = errors.New("the database has rolled the transaction back")
		}
		return err
	})
	return ids, err
}

// queueBefore queues the statements that must precede the next statement: the beginning of the transaction, locks, and
// deferred writes. The returned function reads their results.
func (t *baseTx) queueBefore(b *pgx.Batch) func(pgx.BatchResults) error {
	var read []func(pgx.BatchResults) error
	exec := func(r pgx.BatchResults) error { _, err := r.Exec(); return err }
	if t.beginStatement != "" {
		b.Queue(t.beginStatement)
		t.beginStatement = ""
		read = append(read, exec)
		if t.isView {
			b.Queue(inboxHasEvents)
			read = append(read, func(r pgx.BatchResults) error { return r.QueryRow().Scan(&t.inboxHadEvents) })
		}
	}
	for range t.locks.queue(b) {
		read = append(read, exec)
	}
	for _, w := range t.deferred {
		b.Queue(w.query, encode(w.args)...)
		read = append(read, w.read)
	}
	t.deferred, t.sentAt = nil, time.Now()
	return func(r pgx.BatchResults) error {
		for _, f := range read {
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// queueLease queues holdLease if the context has a lease. The returned function reads its result.
func (t *tx) queueLease(b *pgx.Batch) func(pgx.BatchResults) error {
	l, ok := fleet.LeaseFrom(t.ctx)
	if !ok {
		return func(pgx.BatchResults) error { return nil }
	}
	b.Queue(holdLease, l.Key, l.Epoch)
	return func(r pgx.BatchResults) error {
		_, err := r.Exec()
		if errorCode(err) == codeDivision {
			err = fleet.ErrLeaseLost
		}
		return err
	}
}

// fail records err as the error of the transaction unless there is an earlier one, and returns err. The transaction
// cannot commit afterwards.
func (t *baseTx) fail(err error) error {
	t.err = cmp.Or(t.err, err)
	return err
}

// checkSpace returns fleet.ErrStoreFull if the disk is too full to add something. The transaction can continue after that.
func (t *tx) checkSpace() error {
	if _, full := t.disk.fullWithin(fullRetryInterval); full {
		return fleet.ErrStoreFull
	}
	t.added = true
	return nil
}
