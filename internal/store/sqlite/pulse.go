package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"fleet/internal/notify"
)

// pollInterval is how often subscribers' stores check for commits of other processes.
const pollInterval = 250 * time.Millisecond

// pulse notifies subscribers of commits.
type pulse struct {
	db *sql.DB

	mu      sync.Mutex
	seen    int64 // the newest commit that subscribers were notified of
	subs    notify.Subscribers
	stop    context.CancelFunc // stops the poller; nil if it does not run
	closed  bool
	pollers sync.WaitGroup
}

func newPulse(ctx context.Context, db *sql.DB) (*pulse, error) {
	p := &pulse{db: db}
	var err error
	p.seen, err = p.commits(ctx)
	return p, err
}

// Subscribe returns a channel that receives after a commit, see fleet.Store. Taking a lease does not count as a commit.
func (s *Store) Subscribe() (signal <-chan struct{}, cancel func()) { return s.pulse.subscribe() }

func (p *pulse) subscribe() (<-chan struct{}, func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	signal, cancel := p.subs.Subscribe()
	if p.stop == nil && !p.closed {
		ctx, stop := context.WithCancel(context.Background())
		p.stop = stop
		p.pollers.Go(func() { p.poll(ctx) })
	}
	return signal, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		cancel()
		if p.subs.Len() == 0 && p.stop != nil {
			p.stop()
			p.stop = nil
		}
	}
}

// reached records that n commits exist. It notifies subscribers unless they know of as many.
func (p *pulse) reached(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.seen {
		p.seen = n
		p.subs.Notify()
	}
}

// poll checks for commits of other processes until ctx is done. It compares with the newest commit that subscribers
// know, not with the count at its own start, so that none is missed in between.
func (p *pulse) poll(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		n, err := p.commits(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil: // subscribers will get the error when they read
			p.subs.Notify()
		default:
			p.reached(n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// commits counts the commits of all processes, on the connection that the readers' pool does not use.
func (p *pulse) commits(ctx context.Context) (n int64, err error) {
	return n, p.db.QueryRowContext(ctx, `SELECT n FROM commits`).Scan(&n)
}

// close ends the poller and waits for it.
func (p *pulse) close() {
	p.mu.Lock()
	p.closed = true
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.mu.Unlock()
	p.pollers.Wait()
}
