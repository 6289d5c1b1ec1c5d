package inbound

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFloodFromOneNetwork checks that a flood closes only connections of its own network.
func TestFloodFromOneNetwork(t *testing.T) {
	t.Parallel()
	l := listen(t, Limits{Connections: 3})
	dialFrom := func(host string) (net.Conn, *Conn) {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}).Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		s, err := l.Accept()
		require.NoError(t, err)
		return c, s.(*Conn)
	}
	_, oldest := dialFrom("127.0.0.2")
	for range 10 {
		dialFrom("127.0.0.3")
	}
	require.NotNil(t, oldest.element, "the oldest connection must stay open, because it is the only one of its network")
	require.Equal(t, 3, l.unknown.Len())
	require.NoError(t, oldest.Close())
	require.Len(t, l.unknownPerNetwork, 1)
}
