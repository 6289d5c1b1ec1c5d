package postgres

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/fleet"
)

const (
	// The function fleet_stamp gives the events of the inbox their Seq, and moves them to the log.
	moveInbox      = `SELECT stamped_id FROM fleet_stamp($1)`
	inboxHasEvents = `SELECT EXISTS (SELECT FROM inbox)`
	maxMoved       = 2000            // the largest number of events that one statement moves
	moveInterval   = time.Second     // how often the mover runs without a request, for events of replicas that have died
	moveTimeout    = 5 * time.Second // limits one statement, and how long an Update waits for its events
	// If a statement has moved pauseThreshold events or more, the mover pauses for as long as the statement took, at least
	// minPause and at most maxPause. So statements move more events at once, which is cheaper, because much of their
	// cost does not depend on the number of events. Statements take longer on a busy database, and while those of
	// several replicas wait for each other.
	pauseThreshold = 3
	minPause       = 5 * time.Millisecond
	maxPause       = 15 * time.Millisecond
)

// eventMover moves events from the inbox into the log. One statement serves all callers that wait at the same time.
type eventMover struct {
	pool     *pgxpool.Pool
	notifier *commitNotifier
	log      *slog.Logger
	wake     chan struct{}
	stop     context.CancelFunc
	done     chan struct{}

	mu           sync.Mutex
	next         *round                  // the next round
	running      *round                  // the running round; nil if none is running
	recentRounds [maxRecentRounds]*round // a ring of the last rounds that have moved events
	movedRounds  int                     // how many rounds have moved events
}

// maxRecentRounds is how many rounds the mover remembers. A caller asks after its commit whether its events are in
// the log. On a busy server, many rounds may end between the commit and the question. If more rounds end than are
// remembered, the caller waits for another round.
const maxRecentRounds = 64

// round is one move of events, for all callers that requested it before it began.
type round struct {
	ids  map[int64]bool // ids of the events that the round has moved
	err  error
	done chan struct{}
}

// newEventMover starts a mover, which close stops.
func newEventMover(pool *pgxpool.Pool, notifier *commitNotifier, log *slog.Logger) *eventMover {
	ctx, stop := context.WithCancel(context.Background())
	e := &eventMover{pool: pool, notifier: notifier, log: log, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	e.next = &round{done: make(chan struct{})}
	go e.run(ctx)
	return e
}

// moveAll waits until all events that are in the inbox now are in the log.
func (e *eventMover) moveAll(ctx context.Context) error {
	e.mu.Lock()
	r := e.next
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default: // a round is about to begin
	}
	return r.wait(ctx)
}

// awaitMoved waits until the committed events with these ids in the inbox are in the log. Any replica may move them. Usually this
// replica has moved them in a round that began between their commit and this call. So awaitMoved first looks at the remembered rounds
// and at the running round.
func (e *eventMover) awaitMoved(ctx context.Context, ids []int64) error {
	e.mu.Lock()
	r := e.running
	moved := e.haveMoved(ids)
	e.mu.Unlock()
	if !moved && r != nil {
		_ = r.wait(ctx) // moveAll tells why the round has failed, if it fails again
		if err := ctx.Err(); err != nil {
			return err
		}
		e.mu.Lock()
		moved = e.haveMoved(ids)
		e.mu.Unlock()
	}
	if moved {
		return nil
	}
	return e.moveAll(ctx)
}

// haveMoved reports whether all events with these ids were moved into the log by rounds that the mover remembers. The
// caller must hold mu.
func (e *eventMover) haveMoved(ids []int64) bool {
	for _, id := range ids {
		if !slices.ContainsFunc(e.recentRounds[:], func(r *round) bool { return r != nil && r.ids[id] }) {
			return false
		}
	}
	return true
}

func (r *round) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run runs a round after each request and at each tick, until ctx is done.
func (e *eventMover) run(ctx context.Context) {
	defer close(e.done)
	tick := time.NewTicker(moveInterval)
	defer tick.Stop()
	var lastSeq int64 // the Seq of the newest event at the last tick
	for ctx.Err() == nil {
		requested := true
		select {
		case <-e.wake:
		case <-tick.C:
			requested = false
		case <-ctx.Done():
		}
		e.mu.Lock()
		r := e.next
		e.next, e.running = &round{done: make(chan struct{})}, r
		e.mu.Unlock()
		began := time.Now()
		if r.ids, r.err = e.moveEvents(ctx); r.err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "events not added to the log, retrying", slog.Any("error", r.err))
		}
		e.mu.Lock()
		if e.running = nil; r.err != nil { // after an error, another database may answer, such as a standby, and use the same ids again
			clear(e.recentRounds[:])
		}
		if r.err == nil && len(r.ids) > 0 {
			e.recentRounds[e.movedRounds%maxRecentRounds] = r
			e.movedRounds++
		}
		e.mu.Unlock()
		close(r.done)
		if requested || len(r.ids) > 0 {
			e.notifier.notifyCommit()
		} else if r.err == nil {
			if newest, err := e.newestSeq(ctx); err == nil && newest != lastSeq {
				lastSeq = newest
				e.notifier.subs.Notify() // the replica that has added the events may have died before it notified others
			}
		}
		if len(r.ids) >= pauseThreshold {
			sleep(ctx, min(max(time.Since(began), minPause), maxPause))
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next.err = ErrClosed
	close(e.next.done)
}

// moveEvents moves all events from the inbox into the log, and returns their ids in the inbox.
func (e *eventMover) moveEvents(ctx context.Context) (map[int64]bool, error) {
	ids := map[int64]bool{}
	for {
		var moved []int64 // if the statement fails at its commit, these events have not been moved
		err := withAnswerTimeout(ctx, moveTimeout, func(ctx context.Context) error {
			rows, err := e.pool.Query(ctx, moveInbox, maxMoved)
			if err != nil {
				return err
			}
			moved, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
		if errors.Is(err, errNoAnswer) {
			e.pool.Reset()
		}
		if err != nil {
			return ids, translate(err)
		}
		for _, id := range moved {
			ids[id] = true
		}
		if len(moved) < maxMoved {
			return ids, nil
		}
	}
}

// newestSeq returns the Seq of the newest event.
func (e *eventMover) newestSeq(ctx context.Context) (seq int64, err error) {
	err = withAnswerTimeout(ctx, pingTimeout, func(ctx context.Context) error { return e.pool.QueryRow(ctx, selectLastSeq).Scan(&seq) })
	return seq, err
}

func (e *eventMover) close() {
	e.stop()
	<-e.done
}

// awaitLog waits until the committed events with these ids in the inbox are in the log. If the database does not answer now, awaitLog
// returns an error, although the events are committed and a replica moves them later. Without the error, callers would learn of
// changes that reads do not show yet.
func (s *Store) awaitLog(ctx context.Context, ids []int64) error {
	err := withAnswerTimeout(context.WithoutCancel(ctx), moveTimeout, func(ctx context.Context) error {
		err := s.mover.awaitMoved(ctx, ids)
		for isUnreachable(err) && ctx.Err() == nil && sleep(ctx, minPoll) {
			err = s.mover.awaitMoved(ctx, ids)
		}
		return err
	})
	if errorCode(err) == codeDiskFull { // not ErrStoreFull, because the transaction is committed
		s.disk.recordWrite(err, false)
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the disk of the server's data is full, but the request may have been executed: free space on the disk, and then check").WithCause(err)
	}
	return translate(err)
}
