package mcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLongestIdleSessionIsClosed(t *testing.T) {
	t.Parallel()
	s := newSessions(nil, time.Hour, time.Now)
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
	s := newSessions(nil, time.Hour, time.Now)
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
	s := newSessions(nil, time.Hour, func() time.Time { return now })
	s.begin("alice")
	now = now.Add(2 * time.Hour)
	s.begin("bob")
	require.Len(t, s.byID, 1)
	require.Len(t, s.idle, 1)
}

// TestSessionsOfAnotherServer checks that servers with the same key accept each other's sessions, of the same caller.
func TestSessionsOfAnotherServer(t *testing.T) {
	t.Parallel()
	key := []byte("the key of the servers on a store")
	a, b := newSessions(key, time.Hour, time.Now), newSessions(key, time.Hour, time.Now)
	id := a.begin("alice")
	require.False(t, b.use("bob", id))
	require.True(t, b.use("alice", id))
	require.False(t, b.use("bob", id))
	require.True(t, b.end("alice", id))
	require.True(t, a.use("alice", id))
	require.False(t, newSessions(nil, time.Hour, time.Now).use("alice", id))
	for _, forged := range []string{"", ".", "x", id + "x", "x" + id, "x.y." + id[len(id)-43:]} {
		require.False(t, b.use("alice", forged), forged)
	}
	require.True(t, a.end("alice", id))
	require.False(t, a.use("alice", id), "a server must not accept a session of its own that has ended")
}
