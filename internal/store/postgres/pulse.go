package postgres

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/notify"
)

const (
	listenSQL = `LISTEN fleet`
	notifySQL = `SELECT pg_notify('fleet', $1)`
	// changes grows with every transaction that writes anything.
	changes = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`

	notifyEvery = 20 * time.Millisecond
	proveWithin = time.Second // for a notification to ourselves, which proves that we hear any
	pollLeast   = 100 * time.Millisecond
	pollMost    = time.Second
	dialAgain   = time.Second
	pingEvery   = 5 * time.Second // on a connection without notifications, which may be dead
)

// pulse tells subscribers of commits, and other replicas of ours.
type pulse struct {
	pool *pgxpool.Pool
	poll bool
	log  *slog.Logger
	self string // what our notifications say
	ours chan struct{}
	open chan struct{} // closed when commits of other replicas are heard of, or cannot be yet
	once sync.Once
	stop context.CancelFunc
	work sync.WaitGroup
	subs notify.Subscribers
}

// newPulse returns a pulse that hears of all commits from then on.
func newPulse(pool *pgxpool.Pool, poll bool, log *slog.Logger) *pulse {
	ctx, stop := context.WithCancel(context.Background())
	p := &pulse{
		pool: pool, poll: poll, log: log, self: rand.Text(), ours: make(chan struct{}, 1), open: make(chan struct{}), stop: stop,
	}
	p.work.Go(func() { p.tell(ctx) })
	p.work.Go(func() { p.hear(ctx) })
	<-p.open
	return p
}

// Subscribe returns a channel that receives after a commit, see fleet.Store. Taking a lease does not count as a commit.
func (s *Store) Subscribe() (signal <-chan struct{}, cancel func()) { return s.pulse.subs.Subscribe() }

// committed tells everybody of a commit of this replica.
func (p *pulse) committed() {
	p.subs.Notify()
	select {
	case p.ours <- struct{}{}:
	default: // a notification is about to be sent
	}
}

// tell notifies other replicas of our commits. A notification that is lost is made up for by the next one, and by the
// reading that follows a new connection.
func (p *pulse) tell(ctx context.Context) {
	for {
		select {
		case <-p.ours:
		case <-ctx.Done():
			return
		}
		if err := p.notify(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "replicas not notified", slog.Any("error", err))
		}
		if !sleep(ctx, notifyEvery) {
			return
		}
	}
}

func (p *pulse) notify(ctx context.Context) error {
	return answering(ctx, pingLimit, func(ctx context.Context) error {
		_, err := p.pool.Exec(ctx, notifySQL, p.self)
		return err
	})
}

// hear signals subscribers when another replica has committed, until ctx is done.
func (p *pulse) hear(ctx context.Context) {
	for !p.poll && ctx.Err() == nil {
		conn, err := p.dial(ctx)
		if err == nil {
			var works bool
			works, err = p.listen(ctx, conn)
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = conn.Close(closing)
			cancel()
			if !works && err == nil {
				p.log.InfoContext(ctx, "notifications do not arrive, so commits of other replicas are polled for; is there a pooler before the database?")
				break
			}
		}
		p.opened()
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "connection for notifications lost, retrying", slog.Any("error", err))
			p.subs.Notify() // something may have been missed
			sleep(ctx, dialAgain)
		}
	}
	p.look(ctx)
}

func (p *pulse) opened() { p.once.Do(func() { close(p.open) }) }

func (p *pulse) dial(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig)
}

// listen signals subscribers on each notification until the connection fails. works is false if none arrives at all.
func (p *pulse) listen(ctx context.Context, conn *pgx.Conn) (works bool, err error) {
	err = answering(ctx, answerLimit, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, listenSQL, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return true, err
	}
	if err := p.notify(ctx); err != nil {
		return true, err
	}
	proof, cancel := context.WithTimeout(ctx, proveWithin)
	_, err = conn.WaitForNotification(proof)
	cancel()
	switch {
	case ctx.Err() != nil:
		return true, ctx.Err()
	case proof.Err() == context.DeadlineExceeded && err != nil:
		return false, nil
	case err != nil:
		return true, err
	}
	select {
	case <-p.open:
		p.subs.Notify() // of what was committed while we did not listen
	default:
		p.opened() // nobody has subscribed yet
	}
	for {
		quiet, cancel := context.WithTimeout(ctx, pingEvery)
		n, err := conn.WaitForNotification(quiet)
		late := quiet.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil && n.Payload != p.self:
			p.subs.Notify()
		case err == nil:
		case late && !conn.IsClosed():
			if err := answering(ctx, pingLimit, conn.Ping); err != nil {
				return true, err
			}
		default:
			return true, err
		}
	}
}

// look signals subscribers when anything was written to the database, until ctx is done.
func (p *pulse) look(ctx context.Context) {
	seen, pause := "", pollLeast
	p.opened()
	for sleep(ctx, pause) {
		var now string
		err := answering(ctx, pingLimit, func(ctx context.Context) error { return p.pool.QueryRow(ctx, changes).Scan(&now) })
		if pause = min(2*pause, pollMost); err != nil || now != seen { // with an error, subscribers get it when they read
			seen, pause = now, pollLeast
			p.subs.Notify()
		}
	}
}

// close ends the work and waits for it.
func (p *pulse) close() {
	p.stop()
	p.work.Wait()
}

// sleep waits for d, and reports whether ctx is not done.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
