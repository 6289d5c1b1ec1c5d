package state

import (
	"context"

	"fleet/internal/fleet"
)

// lastSeqReader reads the Seq of the newest event.
type lastSeqReader struct{ *Batcher[struct{}, int64] }

func newLastSeqReader(store fleet.Store) lastSeqReader {
	return lastSeqReader{NewBatcher(func(ctx context.Context, _ []struct{}) (map[struct{}]int64, error) {
		seq, err := store.LastSeq(ctx)
		return map[struct{}]int64{{}: seq}, err
	})}
}

// last returns the Seq of the newest event, from a read that begins after last was called.
func (l lastSeqReader) last(ctx context.Context) (int64, error) { return l.Get(ctx, struct{}{}) }
