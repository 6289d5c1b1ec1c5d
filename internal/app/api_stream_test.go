package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/waittest"
)

// The output of floodScript has floodLines lines of floodLineSize bytes. This is more than all buffers between the task and a
// reader can hold.
const (
	floodLines    = 400
	floodLineSize = 20_000 // bytes
)

func floodScript() string {
	return fmt.Sprintf("wait gate\nrepeat %d %s\ndone", floodLines, strings.Repeat("x", floodLineSize))
}

// TestBlockedReadersDoNotSlowTasks checks that readers that stop reading do not slow down the task, and that a slow
// reader finally gets all events in order.
func TestBlockedReadersDoNotSlowTasks(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"}, step{Task: map[string]any{"agent_name": "papi", "task_description": floodScript()}, Save: map[string]string{"task": "task.id"}})
	task := f.variables["task"]
	slow, err := fleetv1.NewFleetServiceClient(f.conn).WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{TaskId: task, Follow: true})
	require.NoError(t, err)
	first, err := slow.Recv()
	require.NoError(t, err)

	f.openUnread(t, "GET", "/v1/events?follow=true&task_id="+task, "text/event-stream", "")
	f.openUnread(t, "GET", "/v1/events?follow=true&task_id="+task, "application/x-ndjson", "")
	f.openUnread(t, "POST", "/mcp", "application/json, text/event-stream", fmt.Sprintf(
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"watch_fleet","arguments":{"follow":true,"task_id":%q},"_meta":{"progressToken":"p"}}}`, task))

	f.place.Release("gate")
	f.prepare(t, step{Call: "wait_tasks", With: map[string]any{"task_ids": []any{task}}, Until: map[string]any{"done": true}})

	var text strings.Builder
	seq := int64(0)
	for m := first; err == nil; m, err = slow.Recv() {
		for _, e := range m.GetEvents() {
			var eventSeq int64
			_, scanErr := fmt.Sscan(e.GetCursor(), &eventSeq)
			require.NoError(t, scanErr)
			require.Greater(t, eventSeq, seq, "events must be ordered and unique")
			seq = eventSeq
			if e.GetType() == fleetv1.Event_task_output {
				text.WriteString(e.GetText())
			}
		}
	}
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, floodLines*floodLineSize, strings.Count(text.String(), "x"), "a slow reader must get the whole output")
}

// openUnread sends a request and reads only the start of the answer. The connection stays open until the test ends.
func (f *testFleet) openUnread(t *testing.T, verb, path, accept, body string) {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", f.HTTPAddr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	tcp, ok := conn.(*net.TCPConn)
	require.True(t, ok)
	require.NoError(t, tcp.SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", verb, path, accept, len(body), body)
	require.NoError(t, err)
	status := make([]byte, len("HTTP/1.1 200"))
	_, err = io.ReadFull(conn, status)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 200", string(status))
}

// TestFollowersSeeLaterEvents checks on each face that a follower with the cursor "now" gets an event that happens
// after its call.
func TestFollowersSeeLaterEvents(t *testing.T) {
	t.Parallel()
	for _, face := range []string{"grpc", "rest", "sse", "mcp"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"})
			c, err := f.callOf("watch_fleet", "", map[string]any{"cursor": "now", "agent_name": "papi", "follow": true, "max_events": 1})
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), waittest.Limit)
			defer cancel()
			answered := make(chan struct{})
			var r reply
			go func() {
				defer close(answered)
				r, err = faces[face](f, ctx, c)
			}()
			for i := 0; ; i++ { // the test cannot find out when the server has received the call, so it creates events until the follower gets one
				f.place.SetMetadata("papi", "fleet_mcp_pull_request_url", fmt.Sprint(i))
				select {
				case <-answered:
					require.NoError(t, err)
					require.Nil(t, r.err)
					require.Empty(t, mismatches(map[string]any{"events": []any{map[string]any{"type": "agent_changed", "agent_name": "papi"}}}, r.answer))
					return
				case <-f.placeListings:
				case <-ctx.Done():
					require.Fail(t, "the follower gets no event")
				}
			}
		})
	}
}

// TestShutdownEndsCalls shuts a server down during calls on every face. Each call must end with an error that tells the
// client to retry.
func TestShutdownEndsCalls(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"}, step{Task: map[string]any{"agent_name": "papi", "task_description": "wait gate"}, Save: map[string]string{"task": "task.id"}})
	f.shutdownGrace = waittest.Limit // a loaded machine may need longer than the default to write the last errors
	task := f.variables["task"]

	stream, err := fleetv1.NewFleetServiceClient(f.conn).WatchFleet(t.Context(), &fleetv1.WatchFleetRequest{TaskId: task, Follow: true})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.NoError(t, err)
	events := f.openStream(t, "/v1/events?follow=true&task_id="+task, "text/event-stream")
	lines := f.openStream(t, "/v1/events?follow=true&task_id="+task, "application/x-ndjson")

	answers := map[string]<-chan reply{}
	f.place.Delay("Log", time.Hour) // hangs until the call is cancelled
	for _, face := range []string{"grpc", "rest", "mcp"} {
		answers[face] = f.callInBackground(context.WithoutCancel(t.Context()), face, call{method: methods["show_agent_log"], args: map[string]any{"agent_name": "papi"}})
	}
	waittest.UntilSignalled(t, f.placeListings, func() bool { return f.place.Calls("Log") == 3 })
	require.NoError(t, f.stop())

	for err == nil {
		_, err = stream.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
	require.Contains(t, err.Error(), "shutting down")
	last := lastLine(t, events)
	require.Contains(t, last, `data: {"error":"BACKEND_UNAVAILABLE","message":"the server is shutting down`)
	require.Contains(t, lastLine(t, lines), `{"error":"BACKEND_UNAVAILABLE","message":"the server is shutting down`)
	for face, answer := range answers {
		r, ok := <-answer
		require.True(t, ok, "%s got no answer", face)
		require.NotNil(t, r.err, "%s got %v", face, r.answer)
		require.Equal(t, "BACKEND_UNAVAILABLE", r.err.Reason, "%s: %s", face, r.err)
		require.Equal(t, json.Number("1"), r.err.Details["retry_after_seconds"], "%s: %s", face, r.err)
		require.Contains(t, []int{0, http.StatusServiceUnavailable}, r.err.http)
	}
}

// openStream opens a REST stream and waits for its first data.
func (f *testFleet) openStream(t *testing.T, path, accept string) io.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+f.HTTPAddr()+path, nil)
	require.NoError(t, err)
	r.Header.Set("Accept", accept)
	resp, err := f.http.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	_, err = io.ReadFull(resp.Body, make([]byte, 1))
	require.NoError(t, err)
	return resp.Body
}

// lastLine reads r to its end and returns the last line.
func lastLine(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return lines[len(lines)-1]
}

// TestProgress checks that the client of a tool call gets the events of the agent as progress before the answer.
func TestProgress(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, fleetConfig{}, step{Agent: "papi"})
	c, err := f.mcpClient(t.Context(), "", "fleet")
	require.NoError(t, err)
	var mu sync.Mutex
	var messages []string
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		mu.Lock()
		defer mu.Unlock()
		messages = append(messages, fmt.Sprint(n.Params.AdditionalFields["message"]))
	})
	r := mcp.CallToolRequest{}
	r.Params.Name, r.Params.Arguments = "stop_agent", map[string]any{"agent_name": "papi"}
	r.Params.Meta = &mcp.Meta{ProgressToken: "p"}
	result, err := c.CallTool(t.Context(), r)
	require.NoError(t, err)
	require.False(t, result.IsError)
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, messages)
	require.Contains(t, messages[len(messages)-1], "workspace is stopped")
}
