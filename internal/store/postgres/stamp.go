package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/fleet"
)

const (
	stamp      = `SELECT stamped_id, stamped_seq FROM fleet_stamp($1)`
	inboxWaits = `SELECT EXISTS (SELECT FROM inbox)`
	stampedAs  = `SELECT id, seq FROM events WHERE seq > $1 AND id = ANY($2)`
	stampMost  = 2000            // events in one statement
	stampEvery = time.Second     // for events of replicas that died before they could stamp them
	stampLimit = 5 * time.Second // for one statement, and for all that a caller waits for
	// While updates come so fast that stampMany events or more share a statement, one begins at most every stampPause: most of what a statement
	// costs does not depend on the number of events.
	stampMany  = 3
	stampPause = 5 * time.Millisecond
)

// stamper moves events from the inbox into the log. All that wait at the same time are served by one statement.
type stamper struct {
	pool  *pgxpool.Pool
	pulse *pulse
	log   *slog.Logger
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	mu    sync.Mutex
	next  *round
	now   *round                   // the one that runs; nil if none does
	last  [rememberedRounds]*round // the ones with events that have ended, the newest at the place of their count
	ended int
}

// rememberedRounds is how many rounds with events may end between the commit of an event and the question for its number, for example
// because the server has much else to do. After more rounds the number is read from the log.
const rememberedRounds = 64

// round is one run of the statement, for all who asked before it began.
type round struct {
	seqs map[int64]int64 // by id
	err  error
	done chan struct{}
}

func newStamper(pool *pgxpool.Pool, p *pulse, log *slog.Logger) *stamper {
	ctx, stop := context.WithCancel(context.Background())
	s := &stamper{pool: pool, pulse: p, log: log, wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{})}
	s.next = &round{done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// stamp returns when all events that are in the inbox are in the log.
func (s *stamper) stamp(ctx context.Context) error {
	s.mu.Lock()
	r := s.next
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // a round is about to begin
	}
	return r.wait(ctx)
}

// numbers returns the numbers of the committed events as far as rounds of this replica gave them, once all are in the log. Most events
// are in a round that began after their commit, and before this call.
func (s *stamper) numbers(ctx context.Context, ids []int64) (seqs map[int64]int64, err error) {
	s.mu.Lock()
	r := s.now
	s.mu.Unlock()
	if seqs = s.known(ids); len(seqs) < len(ids) && r != nil {
		if err := r.wait(ctx); ctx.Err() != nil {
			return nil, err
		}
		seqs = s.known(ids)
	}
	if len(seqs) < len(ids) {
		err = s.stamp(ctx)
		seqs = s.known(ids)
	}
	return seqs, err
}

// known returns the numbers that the last rounds gave to the events.
func (s *stamper) known(ids []int64) map[int64]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	seqs := map[int64]int64{}
	for _, id := range ids {
		for _, r := range s.last {
			if r != nil && r.seqs[id] != 0 {
				seqs[id] = r.seqs[id]
			}
		}
	}
	return seqs
}

func (r *round) wait(ctx context.Context) error {
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stamper) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(stampEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		asked := true
		select {
		case <-s.wake:
		case <-tick.C:
			asked = false
		case <-ctx.Done():
		}
		s.mu.Lock()
		r := s.next
		s.next, s.now = &round{done: make(chan struct{})}, r
		s.mu.Unlock()
		began := time.Now()
		if r.seqs, r.err = s.once(ctx); r.err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "events not added to the log, retrying", slog.Any("error", r.err))
		}
		s.mu.Lock()
		if s.now = nil; r.err != nil { // another database may answer from now on, which gives ids again
			clear(s.last[:])
		}
		if len(r.seqs) > 0 {
			s.last[s.ended%rememberedRounds] = r
			s.ended++
		}
		s.mu.Unlock()
		close(r.done)
		if asked || len(r.seqs) > 0 {
			s.pulse.committed()
		}
		if len(r.seqs) >= stampMany {
			sleep(ctx, stampPause-time.Since(began))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.err = ErrClosed
	close(s.next.done)
}

// once stamps what is in the inbox.
func (s *stamper) once(ctx context.Context) (map[int64]int64, error) {
	seqs := map[int64]int64{}
	for {
		n := len(seqs)
		err := answering(ctx, stampLimit, func(ctx context.Context) error {
			rows, err := s.pool.Query(ctx, stamp, stampMost)
			if err != nil {
				return err
			}
			return readSeqs(rows, seqs)
		})
		if errors.Is(err, errNoAnswer) {
			s.pool.Reset()
		}
		if err != nil {
			return seqs, translate(err)
		}
		if len(seqs)-n < stampMost {
			return seqs, nil
		}
	}
}

func readSeqs(rows pgx.Rows, seqs map[int64]int64) error {
	var id, seq int64
	_, err := pgx.ForEachRow(rows, []any{&id, &seq}, func() error {
		seqs[id] = seq
		return nil
	})
	return err
}

func (s *stamper) close() {
	s.stop()
	<-s.done
}

// number waits until the committed events are in the log, and sets their Seq. They are committed whatever happens: if the
// database does not answer now, a replica stamps them later. The error keeps callers from being told of what reads do not show yet.
//
// after is a number that the log had reached before they were committed.
func (s *Store) number(ctx context.Context, events []*fleet.Event, ids []int64, after int64) error {
	var seqs map[int64]int64
	err := answering(context.WithoutCancel(ctx), stampLimit, func(ctx context.Context) error {
		var err error
		seqs, err = s.stamper.numbers(ctx, ids)
		for unreachable(err) && ctx.Err() == nil && sleep(ctx, pollLeast) {
			seqs, err = s.stamper.numbers(ctx, ids)
		}
		if err != nil || len(seqs) == len(ids) {
			return err
		}
		rows, err := s.reader.Query(ctx, stampedAs, after, ids) // another replica has stamped them
		if err != nil {
			return err
		}
		return readSeqs(rows, seqs)
	})
	if code(err) == codeDiskFull { // not a refusal: what was asked for is done
		s.full.saw(err)
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the disk of the server's data is full, and what was asked for may be done: free space there, then look").WithCause(err)
	}
	if err != nil {
		return translate(err)
	}
	for i, id := range ids {
		events[i].Seq = seqs[id]
		s.reached(seqs[id])
	}
	return nil
}
