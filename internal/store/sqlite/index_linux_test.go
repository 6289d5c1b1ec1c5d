package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestNewestEventIsKnownWithoutAQuery checks that LastSeq makes no query if nothing was committed since the last call.
func TestNewestEventIsKnownWithoutAQuery(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	first, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	for range readers() { // take all connections, so that a query would wait
		c, err := s.reader.take(t.Context())
		require.NoError(t, err)
		defer s.reader.conns.Give(t.Context(), c)
	}
	again, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// TestCommitsAreCountedWithoutAQuery checks that counting commits makes no query if nothing was committed since the
// last count, and that it notices a commit of another process.
func TestCommitsAreCountedWithoutAQuery(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	require.NoError(t, s.Update(t.Context(), func(x fleet.Tx) error { return x.Append(&fleet.Event{}) }))
	first, err := s.pulse.commits(t.Context())
	require.NoError(t, err)
	conn := s.index.conn
	s.index.conn = nil // a query would panic
	again, err := s.pulse.commits(t.Context())
	s.index.conn = conn
	require.NoError(t, err)
	require.Equal(t, first, again)

	other, err := Open(t.Context(), s.path, Config{})
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	require.NoError(t, other.Update(t.Context(), func(x fleet.Tx) error { return x.Append(&fleet.Event{}) }))
	later, err := s.pulse.commits(t.Context())
	require.NoError(t, err)
	require.Equal(t, first+1, later)
}
