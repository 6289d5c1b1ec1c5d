package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// stream is the response to one message. It begins as mcp-go's own, and becomes a stream of events with the first
// notification, which is written by the time that notify returns. mcp-go knows nothing of it: the JSON that it writes
// at the end becomes the last event.
type stream struct {
	w       http.ResponseWriter
	timeout time.Duration
	begin   func() string // makes a session when the message is answered well; nil for most

	mu     sync.Mutex
	events bool         // notifications were sent
	result bytes.Buffer // what mcp-go wrote since then
}

// notify sends a notification. It is what keeps progress from being lost: see tool.Notify.
func (s *stream) notify(n mcp.JSONRPCNotification) error {
	b, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("mcp: marshal notification: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.events {
		s.events = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no") // else a proxy keeps it back
		s.w.WriteHeader(http.StatusOK)
	}
	return s.event(b)
}

// event writes one event and sends it off. A client that does not read is given up after the timeout, so that it
// cannot hold a call for ever.
func (s *stream) event(data []byte) error {
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

// end writes what mcp-go wrote after the notifications.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if result := bytes.TrimSpace(s.result.Bytes()); len(result) > 0 {
		_ = s.event(result) // the client is gone
	}
}

// Header is the header of the response; it is without effect once the stream has begun.
func (s *stream) Header() http.Header { return s.w.Header() }

// WriteHeader sends the header, with the id of the new session in the answer that begins one.
func (s *stream) WriteHeader(code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events {
		return
	}
	if s.begin != nil && code == http.StatusOK {
		s.w.Header().Set(server.HeaderKeySessionID, s.begin())
	}
	s.w.WriteHeader(code)
}

// Write sends what mcp-go writes, or keeps it for the last event.
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events {
		return s.result.Write(b)
	}
	return s.w.Write(b)
}

// Flush sends off what was written. mcp-go streams only through a writer that has it.
func (s *stream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = http.NewResponseController(s.w).Flush()
}
