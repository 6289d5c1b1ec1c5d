package state

import (
	"context"
	"sync"

	"fleet/internal/fleet"
)

// newest reads the Seq of the newest event. Calls that wait for each other share a read.
type newest struct {
	store fleet.Store

	reading chan struct{} // has an element while a call reads
	mu      sync.Mutex
	begun   int64 // number of reads that have begun
	done    int64 // number of the last read that succeeded
	seq     int64 // its result
}

func newNewest(store fleet.Store) *newest {
	return &newest{store: store, reading: make(chan struct{}, 1)}
}

// last returns the Seq of the newest event, from a read that has begun after the call.
func (n *newest) last(ctx context.Context) (int64, error) {
	n.mu.Lock()
	before := n.begun
	n.mu.Unlock()
	select {
	case n.reading <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-n.reading }()
	n.mu.Lock()
	if n.done > before {
		defer n.mu.Unlock()
		return n.seq, nil
	}
	n.begun++
	n.mu.Unlock()
	seq, err := n.store.LastSeq(ctx)
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done, n.seq = n.begun, seq
	return seq, nil
}
