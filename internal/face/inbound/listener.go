// Package inbound bounds what a connection can use before its caller is known, and tells which user of this machine is at
// its other end. It stands between the listeners and the faces.
package inbound

import (
	"container/list"
	"net"
	"sync"
	"time"
)

// Limits bound the connections of a listener whose callers are not known yet. The zero value has the defaults.
type Limits struct {
	// Connections is how many such connections are open at a time; 256 when 0. A new one closes the oldest, so that
	// callers who identify themselves at once get through however many others do not.
	Connections int
	// Lifetime is how long a connection may go on without a caller that is known; 30 seconds when 0.
	Lifetime time.Duration
	// Bytes is how much is read from such a connection; 256 KiB when 0.
	Bytes int64
}

func (l Limits) withDefaults() Limits {
	if l.Connections <= 0 {
		l.Connections = 256
	}
	if l.Lifetime <= 0 {
		l.Lifetime = 30 * time.Second
	}
	if l.Bytes <= 0 {
		l.Bytes = 256 << 10
	}
	return l
}

// Listener accepts connections and bounds each until it is admitted.
type Listener struct {
	*net.TCPListener
	limits Limits

	mu      sync.Mutex
	unknown *list.List // of *Conn, the newest in front
}

// Listen bounds the connections of l.
func Listen(l *net.TCPListener, limits Limits) *Listener {
	return &Listener{TCPListener: l, limits: limits.withDefaults(), unknown: list.New()}
}

// Accept returns the next connection, which is a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	tcp, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	c := &Conn{TCPConn: tcp, listener: l}
	c.left.Store(l.limits.Bytes)
	c.user = sync.OnceValues(func() (int, error) { return userOf(c) })
	c.timer = time.AfterFunc(l.limits.Lifetime, func() { _ = c.Close() })
	l.mu.Lock()
	c.place = l.unknown.PushFront(c)
	var oldest *Conn
	if l.unknown.Len() > l.limits.Connections {
		oldest, _ = l.unknown.Back().Value.(*Conn)
	}
	l.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// forget takes the connection from those whose caller is not known. It reports whether it was one of them.
func (l *Listener) forget(c *Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.place == nil {
		return false
	}
	l.unknown.Remove(c.place)
	c.place = nil
	return true
}
