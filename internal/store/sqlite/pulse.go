package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// pollInterval is how often subscribers' stores check for commits of other processes.
const pollInterval = 250 * time.Millisecond

// pulse notifies subscribers of commits.
type pulse struct {
	db *sql.DB

	mu      sync.Mutex
	seen    int64 // the newest commit that subscribers were notified of
	subs    map[chan struct{}]struct{}
	stop    context.CancelFunc // stops the poller; nil if it does not run
	closed  bool
	pollers sync.WaitGroup
}

func newPulse(ctx context.Context, db *sql.DB) (*pulse, error) {
	p := &pulse{db: db, subs: map[chan struct{}]struct{}{}}
	var err error
	p.seen, err = p.commits(ctx)
	return p, err
}

// Subscribe returns a channel that receives after a commit, see fleet.Store. Taking a lease does not count as a commit.
func (s *Store) Subscribe() (signal <-chan struct{}, cancel func()) { return s.pulse.subscribe() }

func (p *pulse) subscribe() (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ch, func() {}
	}
	p.subs[ch] = struct{}{}
	if p.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		p.stop = stop
		p.pollers.Go(func() { p.poll(ctx) })
	}
	return ch, func() { p.unsubscribe(ch) }
}

func (p *pulse) unsubscribe(ch chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.subs, ch)
	if len(p.subs) == 0 && p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// reached records that n commits exist. It notifies subscribers unless they know of as many.
func (p *pulse) reached(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.seen {
		p.seen = n
		p.signal()
	}
}

func (p *pulse) signal() {
	for ch := range p.subs {
		select {
		case ch <- struct{}{}:
		default: // a notification is pending
		}
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
			p.mu.Lock()
			p.signal()
			p.mu.Unlock()
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
	clear(p.subs)
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
	p.mu.Unlock()
	p.pollers.Wait()
}
