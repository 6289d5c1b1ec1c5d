package inbound

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// errTooManyBytes is returned when an unknown caller has sent more than it may.
var errTooManyBytes = errors.New("the caller has sent too many bytes without identifying itself")

// maxAnonymousCalls is how many anonymous calls a connection may make before it is admitted. An anonymous call is a call that
// needs no identity, such as a health check.
const maxAnonymousCalls = 32

// Conn is a connection that is limited until Admit is called.
type Conn struct {
	*net.TCPConn
	listener       *Listener
	network        netip.Prefix
	element        *list.Element // in listener.unknown, guarded by its mutex; nil if admitted or closed
	timer          *time.Timer   // closes the connection unless it is admitted in time
	admitted       atomic.Bool
	bytesLeft      atomic.Int64 // bytes that may still be read before it is admitted
	anonymousCalls atomic.Int64 // anonymous calls made before it is admitted
	// User returns the user id of the program at the other end, which must be on this machine. It looks up the id only
	// once. An error means that the user could not be determined.
	User func() (int, error)
}

// Read reads from the connection. Until the connection is admitted, Read reads at most Limits.Bytes in total. The next call then closes
// the connection.
func (c *Conn) Read(b []byte) (int, error) {
	if c.admitted.Load() {
		return c.TCPConn.Read(b)
	}
	left := c.bytesLeft.Load()
	if left <= 0 {
		_ = c.Close()
		return 0, errTooManyBytes
	}
	if int64(len(b)) > left {
		b = b[:left]
	}
	n, err := c.TCPConn.Read(b)
	c.bytesLeft.Add(-int64(n))
	return n, err
}

// Admit lifts the limits. Call it when a caller on the connection has been identified. It has no effect after Close.
func (c *Conn) Admit() {
	if c.admitted.Load() || !c.listener.forget(c) {
		return
	}
	c.admitted.Store(true)
	c.timer.Stop()
}

// Extend lets the connection stay open for d from now, although its caller is not known. It has no effect after Admit or Close.
func (c *Conn) Extend(d time.Duration) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if c.element != nil {
		c.timer.Reset(d)
	}
}

// AllowAnonymousCall counts an anonymous call, and reports whether the connection may make it.
func (c *Conn) AllowAnonymousCall() bool {
	return c.admitted.Load() || c.anonymousCalls.Add(1) <= maxAnonymousCalls
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.listener.forget(c)
	c.timer.Stop()
	return c.TCPConn.Close()
}
