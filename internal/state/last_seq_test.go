package state

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestLastSeqIsReadAfterTheCall checks that calls that wait for another read get their result from a read that began after the call.
// A waiting call must end with its context.
func TestLastSeqIsReadAfterTheCall(t *testing.T) {
	t.Parallel()
	s, _ := newLogTail()
	n := newLastSeqReader(s)
	s.add(fleet.Event{})
	seq, err := n.last(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, seq)

	n.reading = true // as if another goroutine were reading
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = n.last(cancelled)
	require.ErrorIs(t, err, context.Canceled)
	var waiting sync.WaitGroup
	seqs := make([]int64, 50)
	for i := range seqs {
		waiting.Go(func() { seqs[i], _ = n.last(t.Context()) })
	}
	s.add(fleet.Event{})
	n.finish()
	waiting.Wait()
	for _, seq := range seqs {
		require.EqualValues(t, 2, seq, "the result must be from a read that began after the call")
	}
	seq, err = n.last(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, seq)
}
