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

// wire is a network between a browser and a server. It can lose everything without closing a connection, as a router does that
// was restarted or a laptop that slept.
type wire struct {
	home   string
	target string

	streaming chan struct{} // closed when the server has begun to answer with a stream
	begun     sync.Once

	mu    sync.Mutex
	lossy bool
	links []*link
}

// link is a connection of the browser and its other half. What is sent on a dead link arrives nowhere.
type link struct {
	ends [2]net.Conn
	dead atomic.Bool
}

func newWire(t *testing.T, home string) *wire {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{home: "http://" + l.Addr().String(), target: strings.TrimPrefix(home, "http://"), streaming: make(chan struct{})}
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

// carry passes bytes both ways until an end closes.
func (w *wire) carry(browser net.Conn) {
	server, err := net.Dial("tcp", w.target) //nolint:noctx // ends at once: it is on this machine
	if err != nil {
		_ = browser.Close()
		return
	}
	k := &link{ends: [2]net.Conn{browser, server}}
	w.mu.Lock()
	k.dead.Store(w.lossy)
	w.links = append(w.links, k)
	w.mu.Unlock()
	var back sync.WaitGroup
	defer back.Wait()
	back.Go(func() {
		k.pass(browser, server, func(b []byte) {
			if bytes.Contains(b, []byte("text/event-stream")) {
				w.begun.Do(func() { close(w.streaming) })
			}
		})
	})
	k.pass(server, browser, func([]byte) {})
}

// pass passes bytes on, and shows them to see afterwards.
func (k *link) pass(to, from net.Conn, see func([]byte)) {
	_, err := io.Copy(writer(func(b []byte) (int, error) {
		defer see(b)
		if k.dead.Load() {
			return len(b), nil
		}
		return to.Write(b)
	}), from)
	if err != nil || !k.dead.Load() { // of the end of a dead link, the other half learns nothing
		k.close()
	}
}

func (k *link) close() {
	for _, end := range k.ends {
		_ = end.Close()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// lose loses everything from now on, until the wire is mended. Connections of that time are dead forever.
func (w *wire) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lossy = true
	for _, k := range w.links {
		k.dead.Store(true)
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lossy = false
}

// TestHalfOpen loses what the page and the server send each other, without an end of a connection. The page must say that it is not
// connected and how old its data is, and must miss nothing when the network works again.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	// The quotes keep the words of the output out of the description, which the page shows too.
	s := serveBeating(t, time.Second, nil)
	s.agent(t, "papi")
	s.agent(t, "quiet")
	id := s.task(t, "papi", `echo be''gun; while ! [ -e stream ]; do sleep 0.1; done; echo str''eamed; while ! [ -e go ]; do sleep 0.1; done; seq -f "line %g" 1 50; while ! [ -e end ]; do sleep 0.1; done`)
	w := newWire(t, s.home)
	b := open(t, w.home)
	b.goTo("/")
	b.sees("2 agents")
	require.NoError(t, b.until(`to => { const a = document.querySelector('a[href="/tasks/' + to + '"]'); a?.click(); return a !== null }`, id))
	b.sees("begun")
	select {
	case <-w.streaming:
	case <-waittest.Context(t).Done():
		require.Fail(t, "the page opens no stream")
	}
	s.touch(t, "papi", "stream")
	b.sees("streamed")
	eval[any](b, `window.same = true; window.lost = Date.now(); null`)

	w.lose()
	s.touch(t, "papi", "go")
	_, err := s.api.DeleteAgent(t.Context(), &fleetv1.DeleteAgentRequest{AgentName: "quiet"})
	require.NoError(t, err)
	s.agent(t, "fresh")
	b.sees("No connection to the server")
	require.NotContains(t, b.text(), "line 1")
	// The age counts from what the page heard last, and not from when it gave up. The page counts it once a second.
	require.NoError(t, b.until(`() => {
		const age = /What you see is (?:(\d+) min )?(\d+) s old/.exec(document.body.innerText)
		return age && 60 * (age[1] ?? 0) + Number(age[2]) >= (Date.now() - window.lost) / 1000 - 1
	}`))
	w.mend()
	b.misses("No connection to the server")
	b.sees("line 50")
	s.touch(t, "papi", "end")
	b.sees("completed")
	b.press("Fleet")
	b.sees("2 agents")
	b.sees("fresh")
	b.misses("quiet")
	require.True(t, eval[bool](b, `window.same`), "the page was reloaded")
}
