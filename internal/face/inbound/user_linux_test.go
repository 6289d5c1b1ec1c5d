package inbound

import (
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const tableHeader = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// table returns a table of sockets with the given rows.
func table(rows ...string) *strings.Reader {
	return strings.NewReader(tableHeader + strings.Join(rows, "\n") + "\n")
}

func TestFindSocket(t *testing.T) {
	t.Parallel()
	if hexWords([]byte{127, 0, 0, 1}) != "0100007F" {
		t.Skip("the rows have little-endian addresses")
	}
	const rest = " 00000000:00000000 00:00000000 00000000 "
	end := netip.MustParseAddrPort
	for name, c := range map[string]struct {
		row    string
		local  string
		remote string
		user   int
		err    error
	}{
		"IPv4":                     {"0: 0100007F:D431 0100007F:1FA5 01" + rest + "1000 0 552 1", "127.0.0.1:54321", "127.0.0.1:8101", 1000, nil},
		"IPv4 in IPv6":             {"0: 0000000000000000FFFF00000100007F:D431 0000000000000000FFFF00000100007F:1FA5 01" + rest + "1001 0 552 1", "127.0.0.1:54321", "127.0.0.1:8101", 1001, nil},
		"IPv4 at an IPv6 server":   {"0: 0100007F:D431 0100007F:1FA5 01" + rest + "7 0 552 1", "[::ffff:127.0.0.1]:54321", "[::ffff:127.0.0.1]:8101", 7, nil},
		"IPv6":                     {"0: 00000000000000000000000001000000:D431 00000000000000000000000001000000:1FA5 01" + rest + "1002 0 552 1", "[::1]:54321", "[::1]:8101", 1002, nil},
		"half closed":              {"0: 0100007F:D431 0100007F:1FA5 05" + rest + "1000 0 552 1", "127.0.0.1:54321", "127.0.0.1:8101", 1000, nil},
		"TIME_WAIT":                {"0: 0100007F:D431 0100007F:1FA5 06" + rest + "0 0 0 3", "127.0.0.1:54321", "127.0.0.1:8101", 0, errSocketNotFound},
		"TIME_WAIT with an inode":  {"0: 0100007F:D431 0100007F:1FA5 06" + rest + "0 0 552 3", "127.0.0.1:54321", "127.0.0.1:8101", 0, errSocketNotFound},
		"closed, not acknowledged": {"0: 0100007F:D431 0100007F:1FA5 04" + rest + "0 0 0 3", "127.0.0.1:54321", "127.0.0.1:8101", 0, errSocketNotFound},
		"the server's own end":     {"0: 0100007F:1FA5 0100007F:D431 01" + rest + "0 0 552 1", "127.0.0.1:54321", "127.0.0.1:8101", 0, errSocketNotFound},
		"another connection":       {"0: 0100007F:D431 0100007F:1FA6 01" + rest + "0 0 552 1", "127.0.0.1:54321", "127.0.0.1:8101", 0, errSocketNotFound},
		"a short row":              {"0: 0100007F:D431 0100007F:1FA5 01", "127.0.0.1:54321", "127.0.0.1:8101", 0, errSocketNotFound},
	} {
		user, _, err := findSocket(table("9: 0100007F:9999 00000000:0000 0A"+rest+"0 0 1 1", c.row), end(c.local), end(c.remote))
		require.ErrorIs(t, err, c.err, name)
		require.Equal(t, c.user, user, name)
	}
}

// TestUserOfARealConnection finds this process's own sockets over IPv4, over IPv6, and over an IPv6 socket to an IPv4
// address.
func TestUserOfARealConnection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ listen, dial string }{{"127.0.0.1:0", ""}, {"[::1]:0", ""}, {"[::]:0", "127.0.0.1"}} {
		tcp, err := net.Listen("tcp", c.listen)
		if err != nil {
			t.Logf("no %s here: %v", c.listen, err)
			continue
		}
		l := Listen(tcp.(*net.TCPListener), Limits{})
		addr := l.Addr().String()
		if c.dial != "" {
			_, port, err := net.SplitHostPort(addr)
			require.NoError(t, err)
			addr = net.JoinHostPort(c.dial, port)
		}
		client, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		server, err := l.Accept()
		require.NoError(t, err)
		user, err := server.(*Conn).User()
		require.NoError(t, err, c.listen)
		require.Equal(t, os.Geteuid(), user, c.listen)
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		require.NoError(t, l.Close())
	}
}

// TestUserOfAClosedConnection checks that a caller who has disconnected has no user, although the kernel shows root as the
// user of sockets that no program holds.
func TestUserOfAClosedConnection(t *testing.T) {
	t.Parallel()
	client, server := connect(t)
	require.NoError(t, client.Close())
	_, err := server.User()
	require.ErrorIs(t, err, errSocketNotFound)
	require.ErrorIs(t, err, ErrDisconnected)
}
