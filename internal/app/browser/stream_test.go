package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/waittest"
)

// gatedProxy is a proxy in front of a server. It holds some requests until the test lets them pass.
type gatedProxy struct {
	home    string
	arrived chan struct{} // receives when a request is held
	pass    chan struct{} // closed by the test when held requests may pass
}

// newGatedProxy starts a proxy that holds each request for which holds returns true.
func newGatedProxy(t *testing.T, home string, holds func(*http.Request) bool) *gatedProxy {
	t.Helper()
	g := &gatedProxy{arrived: make(chan struct{}, 100), pass: make(chan struct{})}
	g.home = serveProxy(t, home, func(_ http.ResponseWriter, r *http.Request) (handled bool) {
		if holds(r) {
			g.arrived <- struct{}{}
			select {
			case <-g.pass:
			case <-r.Context().Done():
				return true
			}
		}
		return false
	})
	return g
}

// serveProxy starts a proxy in front of the server at home, and returns the proxy's URL. It passes on each request for which handle
// returns false.
func serveProxy(t *testing.T, home string, handle func(http.ResponseWriter, *http.Request) (handled bool)) string {
	t.Helper()
	target, err := url.Parse(home)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handle(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections) // streams do not end by themselves
	return server.URL
}

// TestViewBeforeStream opens a view, changes what the view shows, and only then lets the page ask where the event log
// ends. So the page receives no event about the change, and must still show it.
func TestViewBeforeStream(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `echo begun; while ! [ -e end ]; do sleep 0.1; done`)
	g := newGatedProxy(t, s.home, func(r *http.Request) bool {
		return r.URL.Path == "/v1/events" && r.URL.Query().Get("cursor") == "now"
	})
	b := openAt(t, g.home, "/tasks/"+id)
	select {
	case <-g.arrived:
	case <-waittest.Context(t).Done():
		require.Fail(t, "the page must ask where the event log ends")
	}
	b.waitForText("running")
	s.createFile(t, "papi", "end")
	s.waitForEnd(t, id)
	require.NotContains(t, b.text(), "completed", "the view must have been read before the change")
	b.waitForText("The server has not answered for")
	close(g.pass)
	b.waitForText("completed")
	b.waitUntilGone("The server has not answered for")
}

// TestRetry refuses the requests of the views in a room. The page must repeat only the requests whose refusal may be
// temporary.
func TestRetry(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	var audits, principals, tokens atomic.Int64
	refuse := func(w http.ResponseWriter, status int, message string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"error":"REFUSED","message":"` + message + `"}`))
	}
	b := openTab(t, serveProxy(t, s.home, func(w http.ResponseWriter, r *http.Request) (handled bool) {
		switch {
		case r.URL.Path == "/v1/principals":
			principals.Add(1)
			refuse(w, http.StatusBadRequest, "never possible")
		case r.URL.Path == "/v1/tokens" && tokens.Add(1) <= 4:
			refuse(w, http.StatusServiceUnavailable, "not possible now")
		case r.URL.Path == "/v1/audit" && audits.Add(1) <= 2:
			refuse(w, http.StatusTooManyRequests, "too many requests")
		default:
			return false
		}
		return true
	}))
	b.allowErrors("Failed to load")
	b.allowErrors("status of")
	b.goTo("/admin")
	b.waitForText("Never possible")
	b.waitForText("Not possible now")
	b.waitForText("No tokens.")
	b.waitForText("No calls yet")
	require.NotContains(t, b.text(), "Not possible now")
	b.waitForText("Never possible")
	require.LessOrEqual(t, principals.Load(), int64(2), "the page must read the principals once at first, and once more when the stream begins")
}

// TestOutputEnd leaves the end of an output before the output grows and ends. The page must show the new end when the user scrolls down,
// and when they press End.
func TestOutputEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.createAgent(t, "papi")
	id := s.startTask(t, "papi", `seq 1 3000; while ! [ -e go ]; do sleep 0.1; done; echo "the very" end`)
	const output = `document.querySelector('[role="region"][aria-label="Output"]')`
	tabs := []*tab{openTab(t, s.home), openTab(t, s.home)}
	for _, b := range tabs {
		b.goTo("/tasks/" + id + "?view=output")
		b.waitForText("2999")
		require.NoError(t, b.waitUntil(`() => { // until the page stays there, because it may still be moving to the end
			const output = `+output+`
			const stays = output?.scrollTop === 0 && [...document.querySelectorAll('button')].some(e => e.textContent === 'Follow' && e.ariaPressed === 'false')
			output?.scrollTo(0, 0)
			return stays
		}`))
	}
	s.createFile(t, "papi", "go")
	s.waitForEnd(t, id)
	for _, b := range tabs {
		b.waitUntilGone(", growing")
		require.NotContains(t, b.text(), "the very end")
	}
	eval[bool](tabs[0], output+`.scrollTo(0, 1e9), true`)
	tabs[0].waitForText("the very end")
	tabs[1].press("End")
	tabs[1].waitForText("the very end")
}
