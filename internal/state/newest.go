package state

import (
	"context"
	"sync"

	"fleet/internal/fleet"
)

// newest reads the Seq of the newest event. Calls during a read share the next read.
type newest struct {
	store fleet.Store

	mu      sync.Mutex
	reading bool
	next    *seqRead // the read that waiting calls share; nil if no call waits
}

type seqRead struct {
	done chan struct{} // closed after the read
	seq  int64
	err  error
}

func newNewest(store fleet.Store) *newest { return &newest{store: store} }

// last returns the Seq of the newest event, from a read that begins after last was called.
func (n *newest) last(ctx context.Context) (int64, error) {
	n.mu.Lock()
	if !n.reading {
		n.reading = true
		n.mu.Unlock()
		defer n.finish()
		return n.store.LastSeq(ctx)
	}
	if n.next == nil {
		n.next = &seqRead{done: make(chan struct{})}
	}
	r := n.next
	n.mu.Unlock()
	select {
	case <-r.done:
		return r.seq, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// finish ends a read. If calls are waiting, it starts the next read in the background, so that the caller of finish does
// not wait for it.
func (n *newest) finish() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.reading = false
		return
	}
	go n.serve()
}

// serve reads for waiting calls until no call waits.
func (n *newest) serve() {
	for {
		n.mu.Lock()
		r := n.next
		n.next, n.reading = nil, r != nil
		n.mu.Unlock()
		if r == nil {
			return
		}
		r.seq, r.err = n.store.LastSeq(context.Background())
		close(r.done)
	}
}
