package faultproxy

import (
	"net"
	"sync"
)

// listener accepts connections from clients, and counts them.
type listener struct {
	net.Listener
	proxy *Proxy
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := l.proxy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.OpenConns++
	p.stats.MaxConns = max(p.stats.MaxConns, p.stats.OpenConns)
	client := &conn{Conn: c, proxy: p, closed: make(chan struct{})}
	p.conns[client] = true
	return client, nil
}

// conn is a connection with a client. The proxy can hold back its data.
type conn struct {
	net.Conn
	proxy  *Proxy
	once   sync.Once
	closed chan struct{}
}

// waitUntilOpen waits until the proxy lets data through or the connection is closed.
func (c *conn) waitUntilOpen() {
	c.proxy.mu.Lock()
	hole := c.proxy.blackhole
	c.proxy.mu.Unlock()
	select {
	case <-hole:
	case <-c.closed:
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.waitUntilOpen()
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.waitUntilOpen()
	return c.Conn.Write(b)
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.proxy.mu.Lock()
		c.proxy.stats.OpenConns--
		delete(c.proxy.conns, c)
		c.proxy.mu.Unlock()
	})
	return c.Conn.Close()
}
