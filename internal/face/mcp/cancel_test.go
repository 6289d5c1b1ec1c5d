package mcp_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/face/mcp"
)

const cancelOne = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"changed my mind"}}`

func TestAClosedConnectionCancelsTheCall(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "t"} { // without and with progress
		s := newStub()
		ts := serve(t, s, mcp.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := tryPost(ctx, ts.URL+"/mcp", call(1, "restart_agent", `{"agent_name":"papi"}`, token))
			done <- err
		}()
		require.Equal(t, "papi", <-s.started)
		cancel()
		require.ErrorIs(t, <-s.ended, context.Canceled)
		require.ErrorIs(t, <-done, context.Canceled)
	}
}

func TestANotificationCancelsTheCallOfItsSession(t *testing.T) {
	t.Parallel()
	s := newStub()
	ts := serve(t, s, mcp.Config{})
	mine := post(t, ts.URL+"/mcp", initialize).header.Get("Mcp-Session-Id")
	other := post(t, ts.URL+"/mcp", initialize).header.Get("Mcp-Session-Id")
	done := make(chan rpcResponse, 1)
	go func() {
		a, _ := tryPost(t.Context(), ts.URL+"/mcp", call(1, "restart_agent", `{"agent_name":"papi"}`, ""), "Mcp-Session-Id", mine)
		done <- a
	}()
	<-s.started
	for _, headers := range [][]string{nil, {"Mcp-Session-Id", other}, {"MCP-Protocol-Version", "2026-07-28", "Mcp-Session-Id", mine}} {
		require.Equal(t, 202, post(t, ts.URL+"/mcp", cancelOne, headers...).status)
		require.Empty(t, s.ended, "a notification of another caller must not cancel the call")
	}
	require.Equal(t, 202, post(t, ts.URL+"/mcp", cancelOne, "Mcp-Session-Id", mine).status)
	require.ErrorIs(t, <-s.ended, context.Canceled)
	r := (<-done).result(t)
	require.True(t, r.IsError)
	require.Contains(t, r.Content[0].Text, `"error":"CANCELLED"`)
}

func TestANotificationCancelsTheCallOverStdio(t *testing.T) {
	t.Parallel()
	s := newStub()
	in, write := io.Pipe()
	read, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- mcp.Stdio(t.Context(), connTo(s), mcp.Config{}, in, out)
		_ = out.Close()
	}()
	send := func(message string) {
		_, err := io.WriteString(write, message+"\n")
		require.NoError(t, err)
	}
	send(call(1, "restart_agent", `{"agent_name":"papi"}`, ""))
	send(cancelOne) // at once, perhaps before the call has begun
	send(call(2, "show_agent", `{"agent_name":"papi"}`, ""))
	require.NoError(t, write.Close())
	all, err := io.ReadAll(read)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.Contains(t, string(all), `"id":2`)
	require.NotContains(t, string(all), `"id":1`, "a cancelled call must not be answered")
}

func TestBlockedClientIsDisconnected(t *testing.T) {
	t.Parallel()
	s := newStub()
	for range 64 {
		s.logEvent("papi", strings.Repeat("x", 1<<20)) // more than the socket buffers hold
	}
	ts := serve(t, s, mcp.Config{WriteTimeout: 20 * time.Millisecond, MaxResult: 1 << 30})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ts.URL+"/mcp", strings.NewReader(call(1, "watch_fleet", `{"follow":true}`, "t")))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	<-s.watchEnded
	if err != nil {
		return // the connection was cut before this client had read the header
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.Error(t, err, "the stream must be cut off, not ended normally")
	require.NoError(t, resp.Body.Close())
}
