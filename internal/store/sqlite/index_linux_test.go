package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNewestEventIsKnownWithoutAQuery(t *testing.T) {
	t.Parallel()
	s := openTest(t)
	first, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	for range readers() { // all connections, so that a query would wait
		c, err := s.reader.take(t.Context())
		require.NoError(t, err)
		defer s.reader.conns.Give(c)
	}
	again, err := s.LastSeq(t.Context())
	require.NoError(t, err)
	require.Equal(t, first, again)
}
