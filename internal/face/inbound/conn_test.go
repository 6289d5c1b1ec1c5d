package inbound

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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

func connect(t *testing.T, limits Limits) (client net.Conn, server *Conn) {
	t.Helper()
	return dial(t, listen(t, limits))
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
	third, _ := dial(t, l)
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
	require.NotNil(t, third)
}

func TestAnUnknownConnectionEnds(t *testing.T) {
	t.Parallel()
	l := listen(t, Limits{Lifetime: 50 * time.Millisecond})
	known, k := dial(t, l)
	k.Admit()
	downloads, d := dial(t, l)
	d.Extend(time.Hour)
	unknown, _ := dial(t, l)
	requireClosed(t, unknown)
	for client, server := range map[net.Conn]*Conn{known: k, downloads: d} {
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		_, err = server.Read(make([]byte, 1))
		require.NoError(t, err)
	}
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
	_, server := connect(t, Limits{})
	for range maxAnonymousCalls {
		require.True(t, server.AllowAnonymousCall())
	}
	require.False(t, server.AllowAnonymousCall())
	server.Admit()
	require.True(t, server.AllowAnonymousCall())
}

// TestBodiesHaveADeadline checks that a stalled body ends its request, and that the work after a complete body has no
// deadline.
func TestBodiesHaveADeadline(t *testing.T) {
	t.Parallel()
	read := make(chan error, 2)
	serve := func(t *testing.T, grace time.Duration) *httptest.Server {
		s := httptest.NewServer(limitBodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			read <- err
			if err == nil {
				select {
				case <-r.Context().Done():
					read <- r.Context().Err()
				case <-time.After(3 * grace): // longer than the deadline of the body
					read <- nil
				}
			}
			_, _ = io.WriteString(w, "done")
		}), grace))
		t.Cleanup(s.Close)
		return s
	}

	c, err := net.Dial("tcp", serve(t, 100*time.Millisecond).Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
	require.NoError(t, err)
	require.ErrorContains(t, <-read, "i/o timeout")

	waittest.WithGrowingLimit(t, 100*time.Millisecond, func(grace time.Duration) (inTime bool) {
		s := serve(t, grace)
		for range 2 { // on one connection
			resp, err := s.Client().Post(s.URL, "text/plain", strings.NewReader("abc"))
			require.NoError(t, err)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, "done", string(b))
			require.NoError(t, resp.Body.Close())
			if err = <-read; errors.Is(err, os.ErrDeadlineExceeded) {
				return false
			}
			require.NoError(t, err)
			require.NoError(t, <-read)
		}
		return true
	})
}
