package app

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/inbound"
	"fleet/internal/loopback/loopbacktest"
	"fleet/internal/waittest"
)

// TestReservedAddress checks that no other program can listen on the server's port of localhost.
func TestReservedAddress(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", net.JoinHostPort("::1", "0"))
	if err != nil {
		t.Skip("this machine has no IPv6: ", err)
	}
	require.NoError(t, free.Close())
	for host, other := range map[string]string{"127.0.0.1": "::1", "::1": "127.0.0.1"} {
		l, port := listenReserved(t, host, other)
		_, err := net.Listen("tcp", net.JoinHostPort(other, port))
		require.ErrorContains(t, err, "in use")
		_, err = net.Dial("tcp", net.JoinHostPort(other, port))
		require.ErrorContains(t, err, "refused")
		require.NoError(t, l.Close())
		waittest.Until(t, "a program that was started may hold a copy of the closed listener for a moment", func() bool {
			again, err := net.Listen("tcp", net.JoinHostPort(other, port))
			return err == nil && again.Close() == nil
		})
	}
}

// listenReserved listens at the host, and returns the listener and its port. It chooses a port that was free at the other host, because
// otherwise the port could not be reserved there.
func listenReserved(t *testing.T, host, other string) (net.Listener, string) {
	t.Helper()
	for {
		free, err := net.Listen("tcp", net.JoinHostPort(other, "0"))
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(free.Addr().String())
		require.NoError(t, err)
		require.NoError(t, free.Close())
		loopbacktest.WaitUntilFree(t, free.Addr().String())
		if l, err := listen("http", net.JoinHostPort(host, port), inbound.Limits{}); err == nil {
			return l, port
		}
	}
}
