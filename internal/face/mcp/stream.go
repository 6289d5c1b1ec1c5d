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
	result      *tool.DeferredResult // the result, which is put into the JSON that mcp-go writes
	exact       exactNumbersByText   // numbers that are put back into what mcp-go writes
	id          json.RawMessage      // of the message
	refusal     *refusal             // the error that is sent instead of the response that mcp-go writes
	releaseSlot func()               // called after the work and before the client reads the answer, once or more; see Config.TakeSlot

	mu            sync.Mutex
	isEventStream bool         // notifications were sent
	status        int          // the status to send before the JSON; 0 if none was set, or it was sent
	lastEvent     bytes.Buffer // the response that mcp-go wrote after the first notification
}

// notify sends a notification before it returns, so that progress is not lost: see tool.Notify.
func (r *responseWriter) notify(n mcp.JSONRPCNotification) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("mcp: marshal notification: %w", err)
	}
	b = r.exact.restore(b)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isEventStream {
		r.isEventStream = true
		h := r.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // otherwise a proxy buffers the events
		r.w.WriteHeader(http.StatusOK)
	}
	return r.writeEvent(b)
}

// writeEvent writes one event and flushes it. It gives up on a client that does not read within the timeout, so that the
// client cannot hold a call forever.
func (r *responseWriter) writeEvent(data []byte) error {
	control := http.NewResponseController(r.w)
	_ = control.SetWriteDeadline(time.Now().Add(r.timeout)) // a writer without deadlines needs none
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	if _, err := fmt.Fprintf(r.w, "event: message\ndata: %s\n\n", data); err != nil {
		return fmt.Errorf("mcp: write event: %w", err)
	}
	if err := control.Flush(); err != nil {
		return fmt.Errorf("mcp: write event: %w", err)
	}
	return nil
}

// finish ends the response. It releases the slot, and sends what was kept until now: the status, or the response that mcp-go wrote
// after the first notification, as the last event.
func (r *responseWriter) finish() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseSlot()
	r.sendStatus()
	if last := bytes.TrimSpace(r.lastEvent.Bytes()); len(last) > 0 {
		_ = r.writeEvent(r.result.Append(nil, r.exact.restore(last))) // fails only if the client has disconnected or does not read
	}
}

// Header returns the header of the response. Changing it has no effect after the stream has begun.
func (r *responseWriter) Header() http.Header { return r.w.Header() }

// WriteHeader sets the status, which is sent before the body. The answer that begins a session carries the new session's
// id.
func (r *responseWriter) WriteHeader(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.isEventStream {
		return
	}
	if r.newSession != nil && code == http.StatusOK {
		r.w.Header().Set(server.HeaderKeySessionID, r.newSession())
	}
	r.status = code
}

// sendStatus sends the status, if it was set and not sent.
func (r *responseWriter) sendStatus() {
	if r.status != 0 && !r.isEventStream {
		r.w.WriteHeader(r.status)
	}
	r.status = 0
}

// Write sends the response that mcp-go writes. After the first notification, it keeps the response for the last event instead.
func (r *responseWriter) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	written := len(b)
	b = r.refusal.replace(b, r.id)
	if r.isEventStream {
		_, err := r.lastEvent.Write(b)
		return written, err
	}
	buffer, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = r.result.Append((*buffer)[:0], r.exact.restore(b))
	r.releaseSlot()
	response := *buffer
	if r.status != 0 && len(response) > written {
		r.Header().Set("Content-Length", strconv.Itoa(len(response))) // net/http sets it for small bodies only
	}
	r.sendStatus()
	if _, err := r.w.Write(response); err != nil {
		return 0, err
	}
	return written, nil
}

// Flush implements http.Flusher, without which mcp-go does not stream.
func (r *responseWriter) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sendStatus()
	_ = http.NewResponseController(r.w).Flush()
}
