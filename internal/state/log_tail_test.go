package state

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// logStore is a store that has only events.
type logStore struct {
	fleet.Store
	mu     sync.Mutex
	events []fleet.Event
	signal chan struct{}
	err    error
	views  int
}

func (s *logStore) LastSeq(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.events)), s.err
}

func (s *logStore) View(_ context.Context, fn func(fleet.ReadTx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.views++
	return fn(logTx{s: s})
}

func (s *logStore) Subscribe() (<-chan struct{}, func()) { return s.signal, func() {} }

func (s *logStore) add(events ...fleet.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		e.Seq = int64(len(s.events)) + 1
		s.events = append(s.events, e)
	}
}

type logTx struct {
	fleet.ReadTx
	s *logStore
}

func (t logTx) LastSeq() (int64, error) { return int64(len(t.s.events)), nil }

func (t logTx) Events(_ fleet.EventFilter, w fleet.EventWindow) ([]fleet.Event, error) {
	rest := t.s.events[w.After:]
	return slices.Clone(rest[:min(w.Limit, len(rest))]), nil
}

// newLogTail returns an empty store and a log tail that reads it.
func newLogTail() (*logStore, *LogTail) {
	s := &logStore{signal: make(chan struct{}, 1)}
	return s, &LogTail{store: s, lastSeq: newLastSeqReader(s)}
}

// TestLogTail checks which events Read returns, and when it reports that the tail does not have them.
func TestLogTail(t *testing.T) {
	t.Parallel()
	s, tail := newLogTail()
	s.add(fleet.Event{Owner: "old"}, fleet.Event{Owner: "old"})
	_, _, ok := tail.Read(fleet.EventFilter{}, 2, 10)
	require.False(t, ok, "the tail must be empty before its first read")
	require.NoError(t, tail.refresh(t.Context()))
	_, _, ok = tail.Read(fleet.EventFilter{}, 1, 10)
	require.False(t, ok, "older events must be read from the store")

	s.add(
		fleet.Event{Owner: "alice", AgentName: "Papi", AgentUID: "1", TaskID: "t1", Type: fleet.EventTaskCreated}, fleet.Event{Owner: "bob", AgentName: "papi", AgentUID: "2"},
		fleet.Event{Owner: "alice", AgentName: "mami", AgentUID: "3", TaskID: "t2", Type: fleet.EventTaskEnded},
	)
	require.NoError(t, tail.refresh(t.Context()))
	for _, tt := range []struct {
		filter fleet.EventFilter
		after  int64
		limit  int
		want   []int64
		upTo   int64
	}{
		{fleet.EventFilter{}, 2, 10, []int64{3, 4, 5}, 5},
		{fleet.EventFilter{}, 2, 2, []int64{3, 4}, 4},
		{fleet.EventFilter{}, 4, 10, []int64{5}, 5},
		{fleet.EventFilter{}, 5, 10, nil, 5},
		{fleet.EventFilter{}, 9, 10, nil, 9},
		{fleet.EventFilter{Owner: "alice"}, 2, 10, []int64{3, 5}, 5},
		{fleet.EventFilter{Owner: "alice"}, 2, 1, []int64{3}, 3},
		{fleet.EventFilter{Owner: "carol"}, 2, 10, nil, 5},
		{fleet.EventFilter{AgentName: "PAPI"}, 2, 10, []int64{3, 4}, 5},
		{fleet.EventFilter{AgentName: "papi", Owner: "bob"}, 2, 10, []int64{4}, 5},
		{fleet.EventFilter{AgentUID: "3"}, 2, 10, []int64{5}, 5},
		{fleet.EventFilter{TaskID: "t1"}, 2, 10, []int64{3}, 5},
		{fleet.EventFilter{Types: []fleet.EventType{fleet.EventTaskEnded}}, 2, 10, []int64{5}, 5},
	} {
		events, upTo, ok := tail.Read(tt.filter, tt.after, tt.limit)
		require.True(t, ok)
		var got []int64
		for _, e := range events {
			got = append(got, e.Seq)
		}
		require.Equal(t, tt.want, got, tt)
		require.Equal(t, tt.upTo, upTo, tt)
	}
}

// TestLogTailIsBounded checks that the tail keeps a limited number of events and bytes.
func TestLogTailIsBounded(t *testing.T) {
	t.Parallel()
	s, tail := newLogTail()
	require.NoError(t, tail.refresh(t.Context()))
	for range 3 * maxTailEvents / 100 {
		s.add(make([]fleet.Event, 100)...)
		require.NoError(t, tail.refresh(t.Context()))
		require.LessOrEqual(t, len(tail.events), maxTailEvents)
	}
	s.add(fleet.Event{Text: strings.Repeat("x", maxTailBytes)}, fleet.Event{Text: "y"})
	require.NoError(t, tail.refresh(t.Context()))
	events, _, ok := tail.Read(fleet.EventFilter{}, int64(len(s.events))-1, 10)
	require.True(t, ok)
	require.Len(t, events, 1)
	require.Len(t, tail.events, 1)

	s.add(make([]fleet.Event, maxTailEvents+1)...)
	require.NoError(t, tail.refresh(t.Context()))
	_, _, ok = tail.Read(fleet.EventFilter{}, int64(len(s.events))-1, 10)
	require.False(t, ok, "after a gap the tail must start again")
}

// TestLogTailNotifiesSubscribers checks that one read of the store after a commit serves all subscribers.
func TestLogTailNotifiesSubscribers(t *testing.T) {
	t.Parallel()
	s, tail := newLogTail()
	signals := make([]<-chan struct{}, 100)
	cancels := make([]func(), len(signals))
	for i := range signals {
		signals[i], cancels[i] = tail.Subscribe()
	}
	for n := range int64(3) {
		s.add(fleet.Event{})
		s.signal <- struct{}{}
		for _, ch := range signals {
			<-ch
			_, upTo, ok := tail.Read(fleet.EventFilter{}, n+1, 10)
			require.True(t, ok)
			require.Equal(t, n+1, upTo)
		}
	}
	require.LessOrEqual(t, s.views, 3, "all subscribers must share a read of the store")

	s.mu.Lock()
	s.err = errors.New("the disk is gone")
	s.mu.Unlock()
	s.signal <- struct{}{}
	<-signals[0]
	_, _, ok := tail.Read(fleet.EventFilter{}, 3, 10)
	require.False(t, ok, "after an error, callers must read from the store, which returns the error")
	for _, cancel := range cancels {
		cancel()
	}
	require.Nil(t, tail.stop)
}
