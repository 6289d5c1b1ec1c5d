package mcp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSessionsBelongToTheirCaller checks that every server with the same key accepts a session, and only from its caller.
func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	key := []byte("the key of the servers on a store")
	id := newSessions(key).begin("alice")
	require.NotEqual(t, id, newSessions(key).begin("alice"))
	s := newSessions(key)
	require.True(t, s.has("alice", id))
	require.False(t, s.has("bob", id))
	require.False(t, s.has("", id))
	require.False(t, newSessions(nil).has("alice", id))
	for _, forged := range []string{"", ".", "x", id + "x", "x" + id, "x" + id[len(id)-44:]} {
		require.False(t, s.has("alice", forged), forged)
	}
}
