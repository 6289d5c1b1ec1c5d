package pgtest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Link is a TCP proxy in front of a server. It can break, delay and freeze connections.
type Link struct {
	listener net.Listener
	target   func() string // the path of the server's socket

	mu      sync.Mutex
	conns   map[net.Conn]bool // connections to clients and to the server
	refuse  bool
	delay   time.Duration
	release chan struct{} // data waits until this is closed
	frozen  chan struct{} // closed to freeze the connections that exist then: they pass no data and stay open until the test ends
	end     chan struct{} // closed at the end of the test
}

// NewLink starts a proxy in front of a server. target returns the path of the server's socket.
func NewLink(t testing.TB, target func() string) *Link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	open := make(chan struct{})
	close(open)
	link := &Link{listener: l, target: target, conns: map[net.Conn]bool{}, release: open, frozen: make(chan struct{}), end: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go link.serve(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); close(link.end); link.Refuse(); link.Resume() })
	return link
}

// Port returns the port of the proxy on 127.0.0.1.
func (l *Link) Port() int { return l.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

// serve passes data between the client and the server until one of them closes its connection.
func (l *Link) serve(client net.Conn) {
	defer l.closeConn(client)
	if !l.register(client) {
		return
	}
	server, err := net.Dial("unix", l.target())
	if err != nil {
		return
	}
	defer l.closeConn(server)
	if !l.register(server) {
		return
	}
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		defer func() { _ = to.Close(); _ = from.Close() }()
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			l.holdBack()
			select {
			case <-frozen:
				<-l.end
			default:
			}
			if n > 0 {
				if _, err := to.Write(b[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// register records a connection and returns true, unless connections are refused.
func (l *Link) register(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refuse {
		l.conns[c] = true
	}
	return !l.refuse
}

// closeConn closes a connection and forgets it.
func (l *Link) closeConn(c net.Conn) {
	_ = c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// holdBack holds a piece of data back until Resume is called after Stall, and for the time that Delay has set.
func (l *Link) holdBack() {
	l.mu.Lock()
	release, delay := l.release, l.delay
	l.mu.Unlock()
	<-release
	time.Sleep(delay)
}

// Cut breaks all connections.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close send a reset
		}
		_ = c.Close()
	}
}

// Refuse breaks all connections, and refuses new ones until Accept.
func (l *Link) Refuse() {
	l.setRefuse(true)
	l.Cut()
}

// Accept ends the effect of Refuse.
func (l *Link) Accept() { l.setRefuse(false) }

func (l *Link) setRefuse(refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

// Delay delays each piece of data by d.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Stall holds all data back, without an error, until Resume.
func (l *Link) Stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.release = make(chan struct{})
}

// Forget leaves all connections open, but no longer passes their data. It also drops all packets from clients, as a
// firewall that has lost its state does.
func (l *Link) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			dropPackets(tcp)
		}
	}
	l.freeze()
}

// dropPackets makes the kernel drop all packets that arrive on the connection, without acknowledging them. It ignores
// errors.
func dropPackets(c *net.TCPConn) {
	conn, err := c.SyscallConn()
	if err != nil {
		return
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]})
	})
}

// Freeze leaves all connections open, but no longer passes their data, as a proxy that hangs does. The proxy still
// acknowledges data.
func (l *Link) Freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeze()
}

func (l *Link) freeze() {
	close(l.frozen)
	l.frozen = make(chan struct{})
}

// Resume ends the effect of Stall.
func (l *Link) Resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.release:
	default:
		close(l.release)
	}
}
