package mcp_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	var passed atomic.Int64
	now := func() time.Time { return time.Unix(0, passed.Load()) }
	ts := serve(t, newStub(), mcp.Config{SessionTTL: time.Hour, Now: now})
	begin := func() string { return post(t, ts.URL+"/mcp", initialize).header.Get("Mcp-Session-Id") }
	use := func(id string) int { return post(t, ts.URL+"/mcp", showPapi, "Mcp-Session-Id", id).status }
	end := func(id string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, ts.URL+"/mcp", nil)
		require.NoError(t, err)
		r.Header.Set("Mcp-Session-Id", id)
		resp, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.StatusCode
	}

	a, b := begin(), begin()
	require.NotEqual(t, a, b)
	require.Equal(t, 200, use(a))
	require.Equal(t, 200, end(a))
	require.Equal(t, 404, use(a))
	require.Equal(t, 404, end(a))
	require.Equal(t, 404, end(""))

	c := begin()
	passed.Add(int64(40 * time.Minute))
	require.Equal(t, 200, use(b), "a request must keep a session alive")
	passed.Add(int64(40 * time.Minute))
	require.Equal(t, 200, use(b))
	require.Equal(t, 404, use(c), "an idle session must end")
}

func TestARequestNeedsNoSession(t *testing.T) {
	t.Parallel()
	require.Equal(t, 200, post(t, serve(t, newStub(), mcp.Config{}).URL+"/mcp", showPapi).status)
}
