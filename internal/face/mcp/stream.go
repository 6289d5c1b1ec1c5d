package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"fleet/internal/face/mcp/tool"
)

// buffers keeps the memory of responses for reuse. A response is much larger than everything else that a call needs.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// responseWriter is the HTTP response to one message. It starts as mcp-go's plain response and becomes an event stream with the
// first notification. notify writes its notification before it returns. mcp-go does not know about the stream: the JSON
// that it writes at the end, in one piece, becomes the last event.
type responseWriter struct {
	w           http.ResponseWriter
	timeout     time.Duration
	newSession  func() string        // makes a session when the message is answered without an error; nil for most messages
	result      *tool.DeferredResult // what is put into the JSON that mcp-go writes
	exact       exactNumbersByText   // numbers that are put back into what mcp-go writes
	id          json.RawMessage      // of the message
	refusal     *refusal             // what is sent instead of what mcp-go writes
	releaseSlot func()               // called after the work and before the client reads the answer, once or more; see Config.TakeSlot

	mu            sync.Mutex
	isEventStream bool         // notifications were sent
	status        int          // the status to send before the JSON; 0 if none was set, or it was sent
	lastEvent     bytes.Buffer // what mcp-go wrote after the first notification
}

// notify sends a notification before it returns, so that progress is not lost: see tool.Notify.
func (s *responseWriter) notify(n mcp.JSONRPCNotification) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("mcp: marshal notification: %w", err)
	}
	b = s.exact.restore(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isEventStream {
		s.isEventStream = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // otherwise a proxy buffers the events
		s.w.WriteHeader(http.StatusOK)
	}
	return s.writeEvent(b)
}

// writeEvent writes one event and flushes it. It gives up on a client that does not read within the timeout, so that the
// client cannot hold a call forever.
func (s *responseWriter) writeEvent(data []byte) error {
	control := http.NewResponseController(s.w)
	_ = control.SetWriteDeadline(time.Now().Add(s.timeout)) // a writer without deadlines needs none
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	if _, err := fmt.Fprintf(s.w, "event: message\ndata: %s\n\n", data); err != nil {
		return fmt.Errorf("mcp: write event: %w", err)
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("mcp: write event: %w", err)
	}
	return nil
}

// finish sends what mcp-go wrote after the first notification, as the last event.
func (s *responseWriter) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releaseSlot()
	s.sendStatus()
	if last := bytes.TrimSpace(s.lastEvent.Bytes()); len(last) > 0 {
		_ = s.writeEvent(s.result.Append(nil, s.exact.restore(last))) // the client has disconnected
	}
}

// Header returns the header of the response. Changing it has no effect after the stream has begun.
func (s *responseWriter) Header() http.Header { return s.w.Header() }

// WriteHeader sets the status, which is sent before the body. The answer that begins a session carries the new session's
// id.
func (s *responseWriter) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isEventStream {
		return
	}
	if s.newSession != nil && code == http.StatusOK {
		s.w.Header().Set(server.HeaderKeySessionID, s.newSession())
	}
	s.status = code
}

// sendStatus sends the status, if it was set and not sent.
func (s *responseWriter) sendStatus() {
	if s.status != 0 && !s.isEventStream {
		s.w.WriteHeader(s.status)
	}
	s.status = 0
}

// Write sends what mcp-go writes. After the first notification, it keeps the bytes for the last event instead.
func (s *responseWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := len(b)
	b = s.refusal.replace(b, s.id)
	if s.isEventStream {
		_, err := s.lastEvent.Write(b)
		return written, err
	}
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = s.result.Append((*buffer)[:0], s.exact.restore(b))
	s.releaseSlot()
	response := *buffer
	if s.status != 0 && len(response) > written {
		s.Header().Set("Content-Length", strconv.Itoa(len(response))) // net/http sets it for small bodies only
	}
	s.sendStatus()
	if _, err := s.w.Write(response); err != nil {
		return 0, err
	}
	return written, nil
}

// Flush flushes the response. mcp-go streams only through an http.Flusher.
func (s *responseWriter) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sendStatus()
	_ = http.NewResponseController(s.w).Flush()
}
