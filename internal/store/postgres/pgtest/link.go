package pgtest

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Link is a TCP proxy before a server. It can make connections fail.
type Link struct {
	listener net.Listener
	target   func() string // the path of the server's socket

	mu      sync.Mutex
	conns   map[net.Conn]bool // connections to clients and to the server
	refuse  bool
	delay   time.Duration
	release chan struct{} // data waits until this is closed
	frozen  chan struct{} // closed to freeze the connections that began before: they pass no data and do not end
	end     chan struct{} // closed at the end of the test
}

// NewLink starts a proxy before a server. target returns the path of the server's socket.
func NewLink(t testing.TB, target func() string) *Link {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	open := make(chan struct{})
	close(open)
	p := &Link{listener: l, target: target, conns: map[net.Conn]bool{}, release: open, frozen: make(chan struct{}), end: make(chan struct{})}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); close(p.end); p.Refuse(true); p.Resume() })
	return p
}

// Port returns the port of the proxy on 127.0.0.1.
func (p *Link) Port() int { return p.listener.Addr().(*net.TCPAddr).Port } //nolint:forcetypeassert // it listens on TCP

func (p *Link) serve(client net.Conn) {
	defer p.closeConn(client)
	if !p.register(client) {
		return
	}
	node, err := net.Dial("unix", p.target())
	if err != nil {
		return
	}
	defer p.closeConn(node)
	if !p.register(node) {
		return
	}
	p.mu.Lock()
	gone := p.frozen
	p.mu.Unlock()
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		defer func() { _ = to.Close(); _ = from.Close() }()
		b := make([]byte, 32<<10)
		for {
			n, err := from.Read(b)
			p.wait()
			select {
			case <-gone:
				<-p.end
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
	both.Go(func() { pass(node, client) })
	both.Go(func() { pass(client, node) })
	both.Wait()
}

// register records a connection and returns true, unless connections are refused.
func (p *Link) register(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.refuse {
		p.conns[c] = true
	}
	return !p.refuse
}

// closeConn closes a connection.
func (p *Link) closeConn(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// wait holds a piece of data back, as Stall and Delay say.
func (p *Link) wait() {
	p.mu.Lock()
	release, delay := p.release, p.delay
	p.mu.Unlock()
	<-release
	time.Sleep(delay)
}

// Cut breaks all connections.
func (p *Link) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close send a reset
		}
		_ = c.Close()
	}
}

// Refuse breaks all connections and refuses new ones if refuse is true. If it is false, the proxy accepts
// connections again.
func (p *Link) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	if refuse {
		p.Cut()
	}
}

// Delay delays each piece of data by d.
func (p *Link) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Stall holds all data back, without an error, until Resume.
func (p *Link) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release = make(chan struct{})
}

// Forget leaves all connections open, but no longer passes their data. On Linux it also drops their packets, as a
// firewall that has lost its state does. On other systems, the proxy still acknowledges data.
func (p *Link) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			dropPackets(tcp)
		}
	}
	p.freeze()
}

// Freeze leaves all connections open, but no longer passes their data, as a proxy that hangs does. The proxy still
// acknowledges data.
func (p *Link) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.freeze()
}

func (p *Link) freeze() {
	close(p.frozen)
	p.frozen = make(chan struct{})
}

// Resume ends the effect of Stall.
func (p *Link) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.release:
	default:
		close(p.release)
	}
}
