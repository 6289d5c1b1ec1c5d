package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

var subscribeCases = []testCase{
	{"each subscriber receives after a commit", func(t *testing.T, s fleet.Store) {
		one, cancelOne := s.Subscribe()
		defer cancelOne()
		two, cancelTwo := s.Subscribe()
		defer cancelTwo()
		for range 3 {
			appendEvent(t, s)
			receive(t, one)
			receive(t, two)
		}
	}},

	{"a subscriber receives after a commit without an event", func(t *testing.T, s fleet.Store) {
		signal, cancel := s.Subscribe()
		defer cancel()
		a := addAgent(t, s)
		receive(t, signal)
		updateRows(t, s, a)
		receive(t, signal)
	}},

	{"a slow subscriber finds a signal after many commits, and blocks nobody", func(t *testing.T, s fleet.Store) {
		signal, cancel := s.Subscribe()
		defer cancel()
		other, cancelOther := s.Subscribe()
		defer cancelOther()
		for range 20 {
			appendEvent(t, s)
			receive(t, other)
		}
		receive(t, signal)
	}},

	{"leases and views send no signal", func(t *testing.T, s fleet.Store) {
		// A subscriber that takes leases after every signal would otherwise loop forever.
		signal, cancel := s.Subscribe()
		defer cancel()
		for i := range 10 {
			_, err := s.AcquireLease(t.Context(), "k", "me", time.Duration(i))
			require.NoError(t, err)
		}
		require.NoError(t, s.ReleaseLease(t.Context(), "k", "me"))
		view(t, s, func(fleet.ReadTx) error { return nil })
		select {
		case <-signal:
			t.Fatal("there must be no signal without an update")
		default:
		}
	}},

	{"cancel ends one subscription, and can be called again", func(t *testing.T, s fleet.Store) {
		gone, cancelGone := s.Subscribe()
		signal, cancel := s.Subscribe()
		cancelGone()
		cancelGone()
		appendEvent(t, s)
		receive(t, signal)
		select {
		case <-gone:
			t.Fatal("there must be no signal after the subscription was cancelled")
		default:
		}
		cancel()
		appendEvent(t, s)
		again, cancel := s.Subscribe()
		defer cancel()
		appendEvent(t, s)
		receive(t, again)
	}},

	{"a subscriber receives commits of other processes", func(t *testing.T, s fleet.Store) {
		other := reopen(t, s)
		signal, cancel := s.Subscribe()
		defer cancel()
		for range 3 {
			appendEvent(t, other)
			receive(t, signal)
		}
	}},

	{"a subscriber receives a commit that another process makes right after Subscribe", func(t *testing.T, s fleet.Store) {
		other := reopen(t, s)
		appendEvent(t, s)
		for range 5 {
			signal, cancel := s.Subscribe()
			seq := appendEvent(t, other)
			for {
				receive(t, signal)
				got, err := s.LastSeq(t.Context())
				require.NoError(t, err)
				if got >= seq {
					break
				}
			}
			cancel()
		}
	}},
}

// appendEvent appends an event and returns its Seq. Nobody else may append at the same time.
func appendEvent(t tb, s fleet.Store) int64 {
	t.Helper()
	e := newEvent(fleet.EventAgentChanged, newAgent("u1", "papi", "alice"), "")
	update(t, s, func(tx fleet.Tx) error { return tx.Append(e) })
	seq, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	return seq
}

// receive waits for a signal. It fails the test after waittest.Limit.
func receive(t tb, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(waittest.Limit):
		t.Fatal("no signal has arrived in time")
	}
}
