package sqlite

import (
	"context"
	"sync"
	"time"

	"fleet/internal/notify"
)

// pollInterval is how often a store with subscribers checks for commits of other processes.
const pollInterval = 250 * time.Millisecond

// pulse notifies subscribers of commits.
type pulse struct {
	index *index

	counting sync.Mutex // guards the connection of the index, and counted
	counted  *counted   // nil if unknown

	mu      sync.Mutex
	seen    int64 // the newest commit that subscribers were notified of
	subs    notify.Subscribers
	stop    context.CancelFunc // stops the poller; nil if it does not run
	closed  bool
	pollers sync.WaitGroup
}

// counted caches the number of commits. It is valid as long as the index still has this header.
type counted struct {
	header header
	n      int64
}

func newPulse(ctx context.Context, x *index) (*pulse, error) {
	p := &pulse{index: x}
	var err error
	p.seen, err = p.commits(ctx)
	return p, err
}

// Subscribe returns a channel that gets a value after a commit, see fleet.Store. Taking a lease does not count as a
// commit.
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

// reached records that there are n commits, and notifies subscribers if they were notified of fewer so far.
func (p *pulse) reached(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.seen {
		p.seen = n
		p.subs.Notify()
	}
}

// poll checks for commits of other processes until ctx is done. It compares with the newest commit that subscribers
// were notified of, and not with the count at its own start, so that it misses no commit in between.
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

// commits returns the number of commits of all processes. It queries the database only if something was committed since
// its last query.
func (p *pulse) commits(ctx context.Context) (int64, error) {
	p.counting.Lock()
	defer p.counting.Unlock()
	known := p.index.memory != nil
	var now header
	if known {
		now = p.index.header() // read before the query, so that the count is at least as new as the header
		if p.counted != nil && p.counted.header == now {
			return p.counted.n, ctx.Err()
		}
	}
	// The query reads one row and never waits. Making it interruptible would double its cost.
	n, err := p.index.conn.int64(context.WithoutCancel(ctx), `SELECT n FROM commits`)
	if err == nil && known {
		p.counted = &counted{now, n}
	}
	return n, plain(ctx, err)
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
