package mcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongestIdleSessionIsClosed(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, time.Now)
	other := s.begin("bob")
	first, second := s.begin("alice"), s.begin("alice")
	for range maxSessions - 2 {
		s.begin("alice")
	}
	require.True(t, s.use("alice", first))
	last := s.begin("alice")
	require.True(t, s.use("alice", first))
	require.False(t, s.use("alice", second))
	require.True(t, s.use("alice", last))
	require.Equal(t, maxSessions, s.idle["alice"].Len())
	require.True(t, s.use("bob", other), "a caller must not close another caller's sessions")
	require.Len(t, s.byID, maxSessions+1)
}

func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, time.Now)
	id := s.begin("alice")
	require.False(t, s.use("bob", id))
	require.False(t, s.end("bob", id))
	require.False(t, s.end("", id))
	require.True(t, s.end("alice", id))
	require.False(t, s.use("alice", id))
}

func TestSessionsOfGoneCallersAreRemoved(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	s := newSessions(time.Hour, func() time.Time { return now })
	s.begin("alice")
	now = now.Add(2 * time.Hour)
	s.begin("bob")
	require.Len(t, s.byID, 1)
	require.Len(t, s.idle, 1)
}
