package faultproxy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	defaultTimeout = 10 * time.Second
	tick           = 5 * time.Millisecond
)

// startProxy starts a proxy and its server, which answers with 1000 bytes. It also returns the number of calls that reached the server.
func startProxy(t *testing.T, onExchange func(Exchange)) (*Proxy, *atomic.Int64) {
	t.Helper()
	var calls atomic.Int64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.WriteString(w, strings.Repeat("x", 1000))
	}))
	t.Cleanup(target.Close)
	p, err := New(target.URL, 1, onExchange)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, &calls
}

func get(t *testing.T, c *http.Client, url string) (status int, body string, err error) {
	t.Helper()
	r, err := c.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, string(b), err
}

func TestPassesAndCounts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var exchanges []Exchange
	p, calls := startProxy(t, func(e Exchange) { mu.Lock(); defer mu.Unlock(); exchanges = append(exchanges, e) })
	status, body, err := get(t, &http.Client{Transport: &http.Transport{}}, p.URL()+"/a")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, body, 1000)
	r, err := http.Post(p.URL()+"/b", "text/plain", strings.NewReader("said"))
	require.NoError(t, err)
	require.NoError(t, r.Body.Close())
	require.EqualValues(t, 2, calls.Load())
	require.Equal(t, 2, p.Stats().Requests)
	require.Equal(t, []Exchange{{Method: "GET", Path: "/a", Status: 200}, {Method: "POST", Path: "/b", Body: []byte("said"), Status: 200}}, exchanges)
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	p, calls := startProxy(t, nil)
	p.SetFaults(Faults{Refuse: 1})
	for range 40 {
		status, body, err := get(t, http.DefaultClient, p.URL())
		require.NoError(t, err)
		require.Equal(t, http.StatusBadGateway, status)
		require.Contains(t, body, "502")
	}
	s := p.Stats()
	require.Equal(t, 40, s.Refused+s.RefusedAfter)
	require.NotZero(t, s.Refused)
	require.EqualValues(t, s.RefusedAfter, calls.Load(), "the server must have received exactly the requests that were refused after they had arrived")
}

func TestCuts(t *testing.T) {
	t.Parallel()
	p, _ := startProxy(t, nil)
	p.SetFaults(Faults{Cut: 1})
	for range 20 {
		_, body, err := get(t, http.DefaultClient, p.URL())
		require.Error(t, err)
		require.Less(t, len(body), 1000)
	}
}

func TestCloseConns(t *testing.T) {
	t.Parallel()
	p, _ := startProxy(t, nil)
	client := &http.Client{Transport: &http.Transport{}}
	_, _, err := get(t, client, p.URL())
	require.NoError(t, err)
	require.Equal(t, 1, p.Stats().OpenConns, "the connection must still be open")
	p.CloseConns()
	require.Zero(t, p.Stats().OpenConns)
	_, _, err = get(t, client, p.URL())
	require.NoError(t, err, "a new connection must work")
}

func TestBlackhole(t *testing.T) {
	t.Parallel()
	p, _ := startProxy(t, nil)
	client := &http.Client{Transport: &http.Transport{}}
	_, _, err := get(t, client, p.URL())
	require.NoError(t, err)

	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Blackhole(ctx) }()
	answered := make(chan error, 1)
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		select {
		case <-p.blackhole:
			return false
		default:
			return true
		}
	}, defaultTimeout, tick)
	go func() {
		_, _, err := get(t, client, p.URL())
		answered <- err
	}()
	require.Never(t, func() bool { return len(answered) > 0 }, 20*tick, tick, "no data may arrive")
	end()
	<-ended
	require.NoError(t, <-answered, "blocked data must arrive later")

	client.CloseIdleConnections()
	require.Eventually(t, func() bool { return p.Stats().OpenConns == 0 }, defaultTimeout, tick)
}
