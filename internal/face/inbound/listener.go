// Package inbound limits what a connection can use before its caller is known, finds the user of this machine at its
// other end, and refuses requests of foreign web pages. It stands between the listeners and the faces.
//
// Only package app uses it. It handles connections and HTTP headers, and does not know the fleet. The faces behind it
// decide who the caller is and what the caller may do.
package inbound

import (
	"cmp"
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits limit the connections whose callers are not known yet. The zero value means the defaults.
type Limits struct {
	// Connections is how many such connections may be open at a time; 0 means 256. A new one closes the oldest of the network
	// that has the most. So a flood from one network does not keep out callers elsewhere.
	Connections int
	// Lifetime is how long a connection may stay open without a known caller; 0 means 30 seconds.
	Lifetime time.Duration
	// Bytes is how many bytes are read from such a connection; 0 means 256 KiB.
	Bytes int64
}

func (l Limits) withDefaults() Limits {
	return Limits{Connections: cmp.Or(l.Connections, 256), Lifetime: cmp.Or(l.Lifetime, 30*time.Second), Bytes: cmp.Or(l.Bytes, 256<<10)}
}

// Listener accepts connections and limits each one until it is admitted.
type Listener struct {
	*net.TCPListener
	limits Limits

	mu                sync.Mutex
	unknown           *list.List           // of *Conn, newest first
	unknownPerNetwork map[netip.Prefix]int // number of unknown connections from each network
}

// Listen returns a Listener over l.
func Listen(l *net.TCPListener, limits Limits) *Listener {
	return &Listener{TCPListener: l, limits: limits.withDefaults(), unknown: list.New(), unknownPerNetwork: map[netip.Prefix]int{}}
}

// Accept returns the next connection, which is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	tcp, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := &Conn{TCPConn: tcp, listener: l, network: networkOf(tcp.RemoteAddr())}
	c.bytesLeft.Store(l.limits.Bytes)
	c.User = sync.OnceValues(func() (int, error) { return userOf(c.TCPConn) })
	c.timer = time.AfterFunc(l.limits.Lifetime, func() { _ = c.Close() })
	l.mu.Lock()
	c.element = l.unknown.PushFront(c)
	l.unknownPerNetwork[c.network]++
	var surplus *Conn
	if l.unknown.Len() > l.limits.Connections {
		surplus = l.findSurplus()
	}
	l.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close()
	}
	return c, nil
}

// findSurplus returns the oldest connection of the network that has the most. The caller holds the lock.
func (l *Listener) findSurplus() (surplus *Conn) {
	most := 0
	for e := l.unknown.Back(); e != nil; e = e.Prev() {
		if c, ok := e.Value.(*Conn); ok && l.unknownPerNetwork[c.network] > most {
			surplus, most = c, l.unknownPerNetwork[c.network]
		}
	}
	return surplus
}

// networkOf returns the address, or for IPv6 its network: one caller often has a whole network of addresses.
func networkOf(a net.Addr) netip.Prefix {
	tcp, _ := a.(*net.TCPAddr)
	ip, bits := tcp.AddrPort().Addr().Unmap(), 64
	if ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits) // the zero value if it is not a TCP address
	return network
}

// forget removes the connection from the connections with unknown callers. It reports whether the connection was one of
// them.
func (l *Listener) forget(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.element == nil {
		return false
	}
	l.unknown.Remove(c.element)
	c.element = nil
	if l.unknownPerNetwork[c.network]--; l.unknownPerNetwork[c.network] == 0 {
		delete(l.unknownPerNetwork, c.network)
	}
	return true
}
