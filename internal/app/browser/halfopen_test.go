package browser

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// lossyProxy is a proxy between a browser and a server. It can lose all data without closing a connection, like a restarted
// router or a laptop that has slept.
type lossyProxy struct {
	home   string
	target string

	streaming     chan struct{} // closed when the server has begun to answer with a stream
	streamingOnce sync.Once

	mu    sync.Mutex
	lossy bool
	links []*link
}

// link is a connection from the browser to the proxy, with the matching connection from the proxy to the server. Data
// that is sent on a dead link is lost.
type link struct {
	ends [2]net.Conn
	dead atomic.Bool
}

func newLossyProxy(t *testing.T, home string) *lossyProxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &lossyProxy{home: "http://" + listener.Addr().String(), target: strings.TrimPrefix(home, "http://"), streaming: make(chan struct{})}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() { p.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for _, l := range p.links {
			l.close()
		}
		p.mu.Unlock()
		work.Wait()
	})
	return p
}

// carry passes bytes both ways until one side closes its connection.
func (p *lossyProxy) carry(browser net.Conn) {
	server, err := net.Dial("tcp", p.target) //nolint:noctx // the server is on this machine, so the connection succeeds or fails at once
	if err != nil {
		_ = browser.Close()
		return
	}
	l := &link{ends: [2]net.Conn{browser, server}}
	p.mu.Lock()
	l.dead.Store(p.lossy)
	p.links = append(p.links, l)
	p.mu.Unlock()
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() {
		l.pass(browser, server, func(b []byte) {
			if bytes.Contains(b, []byte("text/event-stream")) {
				p.streamingOnce.Do(func() { close(p.streaming) })
			}
		})
	})
	l.pass(server, browser, func([]byte) {})
}

// pass passes bytes from one connection to the other, or loses them if the link is dead. It then calls onBytes with them.
func (l *link) pass(to, from net.Conn, onBytes func([]byte)) {
	_, err := io.Copy(writer(func(b []byte) (int, error) {
		defer onBytes(b)
		if l.dead.Load() {
			return len(b), nil
		}
		return to.Write(b)
	}), from)
	if err != nil || !l.dead.Load() { // when one side of a dead link ends, the other side must not notice it
		l.close()
	}
}

func (l *link) close() {
	for _, end := range l.ends {
		_ = end.Close()
	}
}

// writer is a function that implements io.Writer.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// startLosing makes the proxy lose all data until stopLosing is called. Connections that exist meanwhile stay dead.
func (p *lossyProxy) startLosing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lossy = true
	for _, l := range p.links {
		l.dead.Store(true)
	}
}

func (p *lossyProxy) stopLosing() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lossy = false
}

// TestHalfOpen loses all data between the page and the server without closing a connection. The page must say that it
// is not connected and how old its data is. When the network works again, the page must show everything that it has
// missed.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	// The page also shows the description. The quotes in it keep the words of the output from appearing there.
	s := serveWithHeartbeat(t, time.Second, nil)
	s.createAgent(t, "papi")
	s.createAgent(t, "quiet")
	id := s.startTask(t, "papi", `echo be''gun; while ! [ -e stream ]; do sleep 0.1; done; echo str''eamed; while ! [ -e go ]; do sleep 0.1; done; seq -f "line %g" 1 50; while ! [ -e end ]; do sleep 0.1; done`)
	p := newLossyProxy(t, s.home)
	b := openAt(t, p.home, "/")
	b.waitForText("2 agents")
	require.NoError(t, b.waitUntil(`to => { const a = document.querySelector('a[href="/tasks/' + to + '"]'); a?.click(); return a !== null }`, id))
	b.waitForText("begun")
	select {
	case <-p.streaming:
	case <-waittest.Context(t).Done():
		require.Fail(t, "the page must open a stream")
	}
	s.createFile(t, "papi", "stream")
	b.waitForText("streamed")
	eval[any](b, `window.same = true; null`)

	p.startLosing()
	eval[any](b, `window.lost = Date.now(); null`) // after the last data
	s.createFile(t, "papi", "go")
	_, err := s.api.DeleteAgent(t.Context(), &fleetv1.DeleteAgentRequest{AgentName: "quiet"})
	require.NoError(t, err)
	s.createAgent(t, "fresh")
	b.waitForText("No connection to the server")
	require.NotContains(t, b.text(), "line 1")
	// The age counts from the last data that the page received, and not from the moment when it gave up waiting. The
	// page updates the age once a second.
	require.NoError(t, b.waitUntil(`() => {
		const age = /What you see is (?:(\d+) min )?(\d+) s old/.exec(document.body.innerText)
		return age && 60 * (age[1] ?? 0) + Number(age[2]) >= (Date.now() - window.lost) / 1000 - 1
	}`))
	p.stopLosing()
	b.waitUntilGone("No connection to the server")
	b.waitForText("line 50")
	s.createFile(t, "papi", "end")
	b.waitForText("completed")
	b.press("Fleet")
	b.waitForText("2 agents")
	b.waitForText("fresh")
	b.waitUntilGone("quiet")
	require.True(t, eval[bool](b, `window.same`), "the page must not be reloaded")
}
