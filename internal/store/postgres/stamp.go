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
	stamp      = `SELECT stamped_id FROM fleet_stamp($1)`
	inboxWaits = `SELECT EXISTS (SELECT FROM inbox)`
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

// rememberedRounds is how many rounds with events may end between the commit of an event and the question whether it is in the log,
// for example because the server has much else to do. After more rounds, the caller waits for another round.
const rememberedRounds = 64

// round is one run of the statement, for all who asked before it began.
type round struct {
	ids  map[int64]bool // of the events that it has moved
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

// await returns when the committed events are in the log, whichever replica moved them. Most events are in a round of this replica
// that began after their commit, and before this call.
func (s *stamper) await(ctx context.Context, ids []int64) error {
	s.mu.Lock()
	r := s.now
	moved := s.moved(ids)
	s.mu.Unlock()
	if !moved && r != nil {
		if err := r.wait(ctx); ctx.Err() != nil {
			return err
		}
		s.mu.Lock()
		moved = s.moved(ids)
		s.mu.Unlock()
	}
	if moved {
		return nil
	}
	return s.stamp(ctx)
}

// moved reports whether the last rounds have moved all of the events. The caller holds mu.
func (s *stamper) moved(ids []int64) bool {
	for _, id := range ids {
		if !slices.ContainsFunc(s.last[:], func(r *round) bool { return r != nil && r.ids[id] }) {
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
		if r.ids, r.err = s.once(ctx); r.err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "events not added to the log, retrying", slog.Any("error", r.err))
		}
		s.mu.Lock()
		if s.now = nil; r.err != nil { // another database may answer from now on, which gives ids again
			clear(s.last[:])
		}
		if len(r.ids) > 0 {
			s.last[s.ended%rememberedRounds] = r
			s.ended++
		}
		s.mu.Unlock()
		close(r.done)
		if asked || len(r.ids) > 0 {
			s.pulse.committed()
		}
		if len(r.ids) >= stampMany {
			sleep(ctx, stampPause-time.Since(began))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next.err = ErrClosed
	close(s.next.done)
}

// once stamps what is in the inbox, and returns the ids of the events.
func (s *stamper) once(ctx context.Context) (map[int64]bool, error) {
	ids := map[int64]bool{}
	for {
		n := len(ids)
		err := answering(ctx, stampLimit, func(ctx context.Context) error {
			rows, err := s.pool.Query(ctx, stamp, stampMost)
			if err != nil {
				return err
			}
			var id int64
			_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
				ids[id] = true
				return nil
			})
			return err
		})
		if errors.Is(err, errNoAnswer) {
			s.pool.Reset()
		}
		if err != nil {
			return ids, translate(err)
		}
		if len(ids)-n < stampMost {
			return ids, nil
		}
	}
}

func (s *stamper) close() {
	s.stop()
	<-s.done
}

// awaitLog waits until the committed events are in the log. They are committed whatever happens: if the database does not
// answer now, a replica stamps them later. The error keeps callers from being told of what reads do not show yet.
func (s *Store) awaitLog(ctx context.Context, ids []int64) error {
	err := answering(context.WithoutCancel(ctx), stampLimit, func(ctx context.Context) error {
		err := s.stamper.await(ctx, ids)
		for unreachable(err) && ctx.Err() == nil && sleep(ctx, pollLeast) {
			err = s.stamper.await(ctx, ids)
		}
		return err
	})
	if code(err) == codeDiskFull { // not a refusal: what was asked for is done
		s.full.saw(err)
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "the disk of the server's data is full, and what was asked for may be done: free space there, then look").WithCause(err)
	}
	return translate(err)
}
