package rest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

func newEvent(cursor int, kind fleetv1.Event_Type, text string) *fleetv1.Event {
	return &fleetv1.Event{
		Cursor: strconv.Itoa(cursor), Time: timestamppb.New(time.Date(2025, 10, 29, 10, 30, 45, 0, time.UTC)),
		Type: kind, AgentName: "papi", TaskId: "t1", Text: text,
	}
}

// sendThreeMessages sends three events in two messages, and a message that only moves the cursor.
func sendThreeMessages(_ *fleetv1.WatchFleetRequest, out watchStream) error {
	for _, a := range []*fleetv1.WatchFleetResponse{
		{Events: []*fleetv1.Event{newEvent(7, fleetv1.Event_task_started, ""), newEvent(8, fleetv1.Event_task_output, "a\r\nb\n")}, Cursor: "8"},
		{Events: []*fleetv1.Event{newEvent(9, fleetv1.Event_task_ended, "done")}, Cursor: "11"},
		{Cursor: "12"},
	} {
		if err := out.Send(a); err != nil {
			return err
		}
	}
	return nil
}

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerWatch = sendThreeMessages
	w := serve(newTestFace(t, s, Config{}), "GET", "/v1/events?cursor=6&task_id=t1", "", "Accept", "text/html, text/event-stream;q=0.9")
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.True(t, w.Flushed)
	require.Equal(t, `retry: 2000

id: 7
event: task_started
data: {"cursor":"7","time":"2025-10-29T10:30:45Z","type":"task_started","agent_name":"papi","task_id":"t1","text":"","status":"","owner":""}

id: 8
event: task_output
data: {"cursor":"8","time":"2025-10-29T10:30:45Z","type":"task_output","agent_name":"papi","task_id":"t1","text":"a\r\nb\n","status":"","owner":""}

id: 9
event: task_ended
data: {"cursor":"9","time":"2025-10-29T10:30:45Z","type":"task_ended","agent_name":"papi","task_id":"t1","text":"done","status":"","owner":""}

id: 11

id: 12

id: 12
event: end
data: {"cursor":"12"}

`, w.Body.String())
	require.Equal(t, "6", s.request.(*fleetv1.WatchFleetRequest).GetCursor())
	require.Equal(t, "t1", s.request.(*fleetv1.WatchFleetRequest).GetTaskId())
	require.False(t, s.request.(*fleetv1.WatchFleetRequest).GetFollow())
}

func TestNDJSON(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerWatch = sendThreeMessages
	w := serve(newTestFace(t, s, Config{}), "GET", "/v1/events?follow=true", "", "Last-Event-ID", "5")
	require.Equal(t, "application/x-ndjson", w.Header().Get("Content-Type"))
	require.Empty(t, w.Header().Get(heartbeatHeader), "NDJSON has no heartbeats")
	require.Equal(t, `{"events":[{"cursor":"7","time":"2025-10-29T10:30:45Z","type":"task_started","agent_name":"papi","task_id":"t1","text":"","status":"","owner":""},{"cursor":"8","time":"2025-10-29T10:30:45Z","type":"task_output","agent_name":"papi","task_id":"t1","text":"a\r\nb\n","status":"","owner":""}],"cursor":"8"}
{"events":[{"cursor":"9","time":"2025-10-29T10:30:45Z","type":"task_ended","agent_name":"papi","task_id":"t1","text":"done","status":"","owner":""}],"cursor":"11"}
{"events":[],"cursor":"12"}
`, w.Body.String())
	require.True(t, s.request.(*fleetv1.WatchFleetRequest).GetFollow())
	require.Empty(t, s.request.(*fleetv1.WatchFleetRequest).GetCursor(), "Last-Event-ID is for server-sent events")
}

func TestLastEventIDTakesThePlaceOfTheCursor(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerWatch = func(*fleetv1.WatchFleetRequest, watchStream) error { return nil }
	f := newTestFace(t, s, Config{})
	serve(f, "GET", "/v1/events?cursor=now&follow=true", "", "Accept", "text/event-stream", "Last-Event-ID", "8")
	require.Equal(t, "8", s.request.(*fleetv1.WatchFleetRequest).GetCursor())

	w := serve(f, "GET", "/v1/events", "", "Accept", "text/event-stream", "Last-Event-ID", "\xff")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Equal(t, "cursor", readError(t, w).Details["field"])
}

func TestAnErrorBeforeTheFirstAnswerIsTheStatus(t *testing.T) {
	t.Parallel()
	for _, accept := range []string{"text/event-stream", "*/*"} {
		s := newStub()
		s.answerWatch = func(*fleetv1.WatchFleetRequest, watchStream) error {
			return statusError(codes.Unauthenticated, fleetv1.ErrorReason_UNAUTHENTICATED, "Send a token.")
		}
		w := serve(newTestFace(t, s, Config{}), "GET", "/v1/events?follow=true", "", "Accept", accept)
		require.Equal(t, http.StatusUnauthorized, w.Code)
		require.NotEmpty(t, w.Header().Get("WWW-Authenticate"))
		require.Equal(t, "UNAUTHENTICATED", readError(t, w).Error)
	}
}

func TestALaterErrorIsTheLastPiece(t *testing.T) {
	t.Parallel()
	s := newStub()
	s.answerWatch = func(r *fleetv1.WatchFleetRequest, out watchStream) error {
		if err := sendThreeMessages(r, out); err != nil {
			return err
		}
		return statusError(codes.NotFound, fleetv1.ErrorReason_TASK_NOT_FOUND, "No task t1.")
	}
	f := newTestFace(t, s, Config{})
	object := `{"error":"TASK_NOT_FOUND","message":"No task t1.","details":{"agent_name":"papi"}}`
	w := serve(f, "GET", "/v1/events", "", "Accept", "text/event-stream")
	require.Equal(t, http.StatusOK, w.Code)
	require.True(t, strings.HasSuffix(w.Body.String(), "\n\nevent: error\ndata: "+object+"\n\n"), w.Body.String())
	w = serve(f, "GET", "/v1/events", "")
	require.True(t, strings.HasSuffix(w.Body.String(), "\n"+object+"\n"), w.Body.String())
}

// dial runs the server on an in-memory connection, which works inside a synctest bubble, and returns the client's end. The connection has
// no buffer, so the server blocks at once if the client does not read.
func dial(t *testing.T, server *http.Server) (client net.Conn) {
	t.Helper()
	l := &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	client, remote := net.Pipe()
	l.conns <- remote
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return client
}

// listener is a net.Listener that accepts the connections of a channel.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error { close(l.closed); return nil }

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

func sendGet(t *testing.T, c net.Conn, target string) {
	t.Helper()
	_, err := io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	require.NoError(t, err)
}

func TestSilentStreamSendsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		s.answerWatch = func(_ *fleetv1.WatchFleetRequest, out watchStream) error {
			<-out.Context().Done()
			return out.Context().Err()
		}
		// Deadlines for ordinary answers must not end a stream.
		c := dial(t, &http.Server{Handler: newTestFace(t, s, Config{}), ReadTimeout: time.Second, WriteTimeout: time.Second})
		begin := time.Now()
		sendGet(t, c, "/v1/events?follow=true")
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Equal(t, 100*time.Millisecond, time.Since(begin))
		require.Equal(t, "10", answer.Header.Get("Fleet-Heartbeat"))
		body := bufio.NewReader(answer.Body)
		for _, want := range []string{"retry: 2000\n", "\n", ": heartbeat\n", "\n", ": heartbeat\n", "\n", ": heartbeat\n"} {
			line, err := body.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
		require.Equal(t, 30*time.Second+100*time.Millisecond, time.Since(begin))
	})
}

func TestDisconnectEndsCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		ended := make(chan error, 1)
		s.answerWatch = func(_ *fleetv1.WatchFleetRequest, out watchStream) error {
			<-out.Context().Done()
			ended <- out.Context().Err()
			return out.Context().Err()
		}
		c := dial(t, &http.Server{Handler: newTestFace(t, s, Config{})})
		sendGet(t, c, "/v1/events?follow=true")
		_, err := http.ReadResponse(bufio.NewReader(c), nil)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

func TestStuckReaderIsDisconnected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStub()
		var sent atomic.Int32
		ended := make(chan struct{})
		s.answerWatch = func(_ *fleetv1.WatchFleetRequest, out watchStream) error {
			defer close(ended)
			for i := 1; ; i++ {
				if err := out.Send(&fleetv1.WatchFleetResponse{Events: []*fleetv1.Event{newEvent(i, fleetv1.Event_task_output, "x")}}); err != nil {
					return err
				}
				sent.Add(1)
			}
		}
		f := newTestFace(t, s, Config{})
		begin := time.Now()
		sendGet(t, dial(t, &http.Server{Handler: f}), "/v1/events?follow=true")
		synctest.Wait()
		require.Less(t, sent.Load(), int32(8), "answers must not be buffered for a blocked client")

		s.answerUnary = answerWith(&fleetv1.ListAgentsResponse{}, nil)
		require.Equal(t, http.StatusOK, serve(f, "GET", "/v1/agents", "").Code)
		require.Equal(t, begin, time.Now(), "other clients must not wait")
		<-ended
		require.Equal(t, 30*time.Second, time.Since(begin))
	})
}

func TestASlowReaderGetsEverythingInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const events = 20
		s := newStub()
		s.answerWatch = func(_ *fleetv1.WatchFleetRequest, out watchStream) error {
			for i := 1; i <= events; i++ {
				if err := out.Send(&fleetv1.WatchFleetResponse{Events: []*fleetv1.Event{newEvent(i, fleetv1.Event_task_output, "x")}}); err != nil {
					return err
				}
			}
			return nil
		}
		c := dial(t, &http.Server{Handler: newTestFace(t, s, Config{})})
		sendGet(t, c, "/v1/events")
		answer, err := http.ReadResponse(bufio.NewReaderSize(c, 16), nil)
		require.NoError(t, err)
		next := 1
		for lines := bufio.NewReaderSize(answer.Body, 16); ; {
			line, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			if strings.HasPrefix(line, "data: {\"cursor\":\""+strconv.Itoa(next)+"\"") {
				next++
			}
			time.Sleep(time.Second) // takes no real time in the bubble
		}
		require.Equal(t, events, next-1)
	})
}
