package postgres

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"fleet/internal/notify"
)

const (
	listenSQL = `LISTEN fleet`
	notifySQL = `SELECT pg_notify('fleet', $1)`
	// selectLastTransaction returns a number that grows with every transaction that writes.
	selectLastTransaction = `SELECT pg_snapshot_xmax(pg_current_snapshot())::text`

	notifyInterval = 20 * time.Millisecond
	echoTimeout    = time.Second // limits the wait for our own notification, which proves that notifications arrive
	minPoll        = 100 * time.Millisecond
	maxPoll        = time.Second
	redialPause    = time.Second     // the pause before a lost connection is opened again
	pingInterval   = 5 * time.Second // how often a connection without notifications is checked, since it may be dead
)

// commitNotifier notifies its subscribers of the commits of all replicas. It also notifies other replicas of the commits of this one.
type commitNotifier struct {
	pool       *pgxpool.Pool
	pollOnly   bool
	log        *slog.Logger
	origin     string        // the payload of our notifications, by which we recognize them
	pending    chan struct{} // has a value while other replicas must be notified
	ready      chan struct{} // closed once the notifier listens or polls, or the first attempt to listen has failed
	readyOnce  sync.Once
	stop       context.CancelFunc
	background sync.WaitGroup
	subs       notify.Subscribers
}

// newCommitNotifier starts a notifier, which close stops, and waits until it is ready. The notifier notices all commits from then on.
func newCommitNotifier(pool *pgxpool.Pool, pollOnly bool, log *slog.Logger) *commitNotifier {
	ctx, stop := context.WithCancel(context.Background())
	p := &commitNotifier{
		pool: pool, pollOnly: pollOnly, log: log, origin: rand.Text(), pending: make(chan struct{}, 1), ready: make(chan struct{}), stop: stop,
	}
	p.background.Go(func() { p.sendNotifications(ctx) })
	p.background.Go(func() { p.receiveNotifications(ctx) })
	<-p.ready
	return p
}

// Subscribe returns a channel that receives a signal after commits, see fleet.Store. Taking a lease does not count as a
// commit.
func (s *Store) Subscribe() (signal <-chan struct{}, cancel func()) {
	return s.notifier.subs.Subscribe()
}

// notifyCommit notifies subscribers and other replicas of a commit of this replica.
func (p *commitNotifier) notifyCommit() {
	p.subs.Notify()
	select {
	case p.pending <- struct{}{}:
	default: // a notification is about to be sent
	}
}

// sendNotifications notifies other replicas of our commits until ctx is done. A lost notification does no harm: receivers look for
// all changes after the next notification and after they have connected again.
func (p *commitNotifier) sendNotifications(ctx context.Context) {
	for {
		select {
		case <-p.pending:
		case <-ctx.Done():
			return
		}
		if err := p.notify(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "replicas not notified", slog.Any("error", err))
		}
		if !sleep(ctx, notifyInterval) {
			return
		}
	}
}

func (p *commitNotifier) notify(ctx context.Context) error {
	return withAnswerTimeout(ctx, pingTimeout, func(ctx context.Context) error {
		_, err := p.pool.Exec(ctx, notifySQL, p.origin)
		return err
	})
}

// receiveNotifications notifies subscribers of commits of other replicas until ctx is done. It listens for notifications, and polls if
// no notifications arrive or p.pollOnly is set.
func (p *commitNotifier) receiveNotifications(ctx context.Context) {
	for !p.pollOnly && ctx.Err() == nil {
		conn, err := p.connect(ctx)
		if err == nil {
			var arrives bool
			arrives, err = p.listen(ctx, conn)
			closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			_ = conn.Close(closeCtx)
			cancel()
			if !arrives && err == nil {
				p.log.InfoContext(ctx, "notifications do not arrive, polling for commits of other replicas: a pooler before the database may be the cause")
				break
			}
		}
		p.setReady()
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "connection for notifications lost, retrying", slog.Any("error", err))
			p.subs.Notify() // a notification may have been lost
			sleep(ctx, redialPause)
		}
	}
	p.pollChanges(ctx)
}

// setReady makes newCommitNotifier return. Later calls do nothing.
func (p *commitNotifier) setReady() { p.readyOnce.Do(func() { close(p.ready) }) }

// connect opens the connection for notifications. On this connection, a wait ends at once when its context ends, because there is no
// statement to cancel.
func (p *commitNotifier) connect(ctx context.Context) (*pgx.Conn, error) {
	c := p.pool.Config().ConnConfig
	c.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	return pgx.ConnectConfig(ctx, c)
}

// listen notifies subscribers of each notification until the connection fails. arrives is false if not even our own
// notification arrives.
func (p *commitNotifier) listen(ctx context.Context, conn *pgx.Conn) (arrives bool, err error) {
	err = withAnswerTimeout(ctx, answerTimeout, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, listenSQL, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return true, err
	}
	if err := p.notify(ctx); err != nil {
		return true, err
	}
	echoCtx, cancel := context.WithTimeout(ctx, echoTimeout)
	_, err = conn.WaitForNotification(echoCtx)
	cancel()
	switch {
	case ctx.Err() != nil:
		return true, ctx.Err()
	case echoCtx.Err() == context.DeadlineExceeded && err != nil:
		return false, nil
	case err != nil:
		return true, err
	}
	select {
	case <-p.ready:
		p.subs.Notify() // there may have been commits while we did not listen
	default:
		p.setReady() // nobody has subscribed yet
	}
	for {
		waitCtx, cancel := context.WithTimeout(ctx, pingInterval)
		n, err := conn.WaitForNotification(waitCtx)
		timedOut := waitCtx.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil && n.Payload != p.origin:
			p.subs.Notify()
		case err == nil:
		case timedOut && !conn.IsClosed():
			if err := withAnswerTimeout(ctx, pingTimeout, conn.Ping); err != nil {
				return true, err
			}
		default:
			return true, err
		}
	}
}

// pollChanges polls the database until ctx is done, and notifies subscribers after a transaction has written something.
func (p *commitNotifier) pollChanges(ctx context.Context) {
	lastID, pause := "", minPoll
	p.setReady()
	for sleep(ctx, pause) {
		var id string
		err := withAnswerTimeout(ctx, pingTimeout, func(ctx context.Context) error { return p.pool.QueryRow(ctx, selectLastTransaction).Scan(&id) })
		if pause = min(2*pause, maxPoll); err != nil || id != lastID { // after an error too: subscribers get the error when they read
			lastID, pause = id, minPoll
			p.subs.Notify()
		}
	}
}

// close ends the background work and waits for its end.
func (p *commitNotifier) close() {
	p.stop()
	p.background.Wait()
}

// sleep waits for d or until ctx is done. It reports whether it has waited for d.
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
