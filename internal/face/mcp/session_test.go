package mcp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSessionsBelongToTheirCaller checks that every server with the same key accepts a session, and only from its caller.
func TestSessionsBelongToTheirCaller(t *testing.T) {
	t.Parallel()
	key := []byte("the key of the servers on a store")
	id := newSessions(key).newID("alice")
	require.NotEqual(t, id, newSessions(key).newID("alice"))
	s := newSessions(key)
	require.True(t, s.verify("alice", id))
	require.False(t, s.verify("bob", id))
	require.False(t, s.verify("", id))
	require.False(t, newSessions(nil).verify("alice", id))
	for _, forged := range []string{"", ".", "x", id + "x", "x" + id, "x" + id[len(id)-44:]} {
		require.False(t, s.verify("alice", forged), forged)
	}
}
