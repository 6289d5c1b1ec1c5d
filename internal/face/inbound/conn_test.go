package inbound

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

func listen(t *testing.T, limits Limits) *Listener {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := Listen(tcp.(*net.TCPListener), limits)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func dial(t *testing.T, l *Listener) (client net.Conn, server *Conn) {
	t.Helper()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = client.Close(), accepted.Close() })
	return client, accepted.(*Conn)
}

// connect returns both ends of a new connection with the default limits.
func connect(t *testing.T) (client net.Conn, server *Conn) {
	t.Helper()
	return dial(t, listen(t, Limits{}))
}

// requireClosed waits until the other end has closed the connection.
func requireClosed(t *testing.T, client net.Conn) {
	t.Helper()
	require.NoError(t, client.SetReadDeadline(time.Now().Add(waittest.Limit)))
	_, err := client.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the connection must be closed")
}

func TestOldestUnknownConnectionIsClosed(t *testing.T) {
	t.Parallel()
	l := listen(t, Limits{Connections: 2})
	known, knownServer := dial(t, l)
	knownServer.Admit()
	first, _ := dial(t, l)
	second, s := dial(t, l)
	dial(t, l)
	requireClosed(t, first)
	for client, server := range map[net.Conn]*Conn{known: knownServer, second: s} {
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		n, err := server.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	require.Equal(t, 2, l.unknown.Len())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), net.ErrClosed)
	require.Equal(t, 1, l.unknown.Len())
}

func TestAnUnknownConnectionEnds(t *testing.T) {
	t.Parallel()
	waittest.WithGrowingLimit(t, 50*time.Millisecond, func(lifetime time.Duration) (inTime bool) {
		l := listen(t, Limits{Lifetime: lifetime})
		begun := time.Now()
		known, k := dial(t, l)
		k.Admit()
		downloads, d := dial(t, l)
		d.Extend(time.Hour)
		if time.Since(begun) >= lifetime { // they may have been closed before
			return false
		}
		unknown, _ := dial(t, l)
		requireClosed(t, unknown)
		for client, server := range map[net.Conn]*Conn{known: k, downloads: d} {
			_, err := client.Write([]byte("x"))
			require.NoError(t, err)
			_, err = server.Read(make([]byte, 1))
			require.NoError(t, err)
		}
		return true
	})
}

func TestUnknownConnectionHasSmallLimits(t *testing.T) {
	t.Parallel()
	l := listen(t, Limits{Bytes: 10})
	client, server := dial(t, l)
	_, err := client.Write(make([]byte, 100))
	require.NoError(t, err)
	data, err := io.ReadAll(server)
	require.ErrorIs(t, err, errTooManyBytes)
	require.Len(t, data, 10)
	requireClosed(t, client)

	client, server = dial(t, l)
	server.Admit()
	_, err = client.Write(make([]byte, 100))
	require.NoError(t, err)
	_, err = io.ReadFull(server, make([]byte, 100))
	require.NoError(t, err)
}

func TestAnonymousCalls(t *testing.T) {
	t.Parallel()
	_, server := connect(t)
	for range maxAnonymousCalls {
		require.True(t, server.AllowAnonymousCall())
	}
	require.False(t, server.AllowAnonymousCall())
	server.Admit()
	require.True(t, server.AllowAnonymousCall())
}
