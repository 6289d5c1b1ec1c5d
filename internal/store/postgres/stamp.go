package postgres

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
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
)

// stamper moves events from the inbox into the log. All that wait at the same time are served by one statement.
type stamper struct {
	pool  *pgxpool.Pool
	pulse *pulse
	log   *slog.Logger
	wake  chan struct{}
	stop  context.CancelFunc
	done  chan struct{}

	mu   sync.Mutex
	next *round
}

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
	_, err := s.stamped(ctx)
	return err
}

func (s *stamper) stamped(ctx context.Context) (*round, error) {
	s.mu.Lock()
	r := s.next
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // a round is about to begin
	}
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
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
		s.next = &round{done: make(chan struct{})}
		s.mu.Unlock()
		if r.seqs, r.err = s.once(ctx); r.err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "events not added to the log, retrying", slog.Any("error", r.err))
		}
		close(r.done)
		if asked || len(r.seqs) > 0 {
			s.pulse.committed()
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
		r, err := s.stamper.stamped(ctx)
		for unreachable(err) && ctx.Err() == nil && sleep(ctx, pollLeast) {
			r, err = s.stamper.stamped(ctx)
		}
		if err != nil {
			return err
		}
		seqs = r.seqs
		if slices.ContainsFunc(ids, func(id int64) bool { return seqs[id] == 0 }) { // another replica has stamped them
			seqs = maps.Clone(seqs)
			rows, err := s.reader.Query(ctx, stampedAs, after, ids)
			if err != nil {
				return err
			}
			return readSeqs(rows, seqs)
		}
		return nil
	})
	if err != nil {
		return translate(err)
	}
	for i, id := range ids {
		events[i].Seq = seqs[id]
		s.reached(seqs[id])
	}
	return nil
}
