package remote_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cutter is a proxy that cuts each connection after a random number of response bytes or a random time.
type cutter struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[net.Conn]bool
	cuts   int
}

func newCutter(t *testing.T, target string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{listener: l, target: target, open: map[net.Conn]bool{}}
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(conn) })
		}
	})
	return c
}

func (c *cutter) addr() string { return c.listener.Addr().String() }

func (c *cutter) serve(from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer to.Close()
	if !c.add(from, to) {
		return
	}
	cut := time.AfterFunc(c.lifetime(), func() { c.cut(from, to) })
	defer cut.Stop()
	var toTarget sync.WaitGroup
	toTarget.Go(func() {
		_, _ = io.Copy(to, from)
		c.cut(from, to)
	})
	_, _ = io.CopyN(from, to, int64(100+rand.IntN(3000)))
	c.cut(from, to)
	toTarget.Wait()
}

// lifetime returns the maximum lifetime of a connection. It grows with the number of cuts, so that every call finally
// succeeds, even on a slow machine.
func (c *cutter) lifetime() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(30+rand.IntN(600)+75*c.cuts) * time.Millisecond
}

// add registers the connections. It reports whether the cutter is still open.
func (c *cutter) add(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		c.open[conn] = true
	}
	return !c.closed
}

// cut closes the two connections that were added together, and counts the cut. It does nothing if they were cut before.
func (c *cutter) cut(from, to net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open[from] {
		return
	}
	c.cuts++
	for _, conn := range []net.Conn{from, to} {
		_ = conn.Close()
		delete(c.open, conn)
	}
}

func (c *cutter) close() {
	_ = c.listener.Close()
	c.mu.Lock()
	c.closed = true
	for conn := range c.open {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wg.Wait()
}
