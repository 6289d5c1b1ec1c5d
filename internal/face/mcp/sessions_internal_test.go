package mcp

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheLongestIdleSessionMakesRoom(t *testing.T) {
	t.Parallel()
	s := newSessions(time.Hour, time.Now)
	first, second := s.begin(), s.begin()
	for range maxSessions - 2 {
		s.begin()
	}
	require.True(t, s.use(first))
	last := s.begin()
	require.True(t, s.use(first))
	require.False(t, s.use(second))
	require.True(t, s.use(last))
	require.Len(t, s.byID, maxSessions)
	require.Equal(t, maxSessions, s.idle.Len())
}
