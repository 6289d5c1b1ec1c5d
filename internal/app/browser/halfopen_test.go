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
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &lossyProxy{home: "http://" + l.Addr().String(), target: strings.TrimPrefix(home, "http://"), streaming: make(chan struct{})}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.mu.Lock()
		for _, k := range w.links {
			k.close()
		}
		w.mu.Unlock()
		work.Wait()
	})
	return w
}

// carry passes bytes both ways until one side closes its connection.
func (l *lossyProxy) carry(browser net.Conn) {
	server, err := net.Dial("tcp", l.target) //nolint:noctx // the server is on this machine, so the connection succeeds or fails at once
	if err != nil {
		_ = browser.Close()
		return
	}
	k := &link{ends: [2]net.Conn{browser, server}}
	l.mu.Lock()
	k.dead.Store(l.lossy)
	l.links = append(l.links, k)
	l.mu.Unlock()
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() {
		k.pass(browser, server, func(b []byte) {
			if bytes.Contains(b, []byte("text/event-stream")) {
				l.streamingOnce.Do(func() { close(l.streaming) })
			}
		})
	})
	k.pass(server, browser, func([]byte) {})
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
func (l *lossyProxy) startLosing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = true
	for _, k := range l.links {
		k.dead.Store(true)
	}
}

func (l *lossyProxy) stopLosing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lossy = false
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
	w := newLossyProxy(t, s.home)
	b := openAt(t, w.home, "/")
	b.waitForText("2 agents")
	require.NoError(t, b.waitUntil(`to => { const a = document.querySelector('a[href="/tasks/' + to + '"]'); a?.click(); return a !== null }`, id))
	b.waitForText("begun")
	select {
	case <-w.streaming:
	case <-waittest.Context(t).Done():
		require.Fail(t, "the page must open a stream")
	}
	s.createFile(t, "papi", "stream")
	b.waitForText("streamed")
	eval[any](b, `window.same = true; null`)

	w.startLosing()
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
	w.stopLosing()
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
