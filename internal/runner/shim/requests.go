package shim

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

// requests knows from the child's output whether it is asking its model just now, so that it can be ended between two
// requests: the one in flight is paid for and its answer is wanted, the next one is not. It reads the events of Claude
// Code's --include-partial-messages, and takes them out of what it passes on, since they repeat what others say.
//
// A child that says nothing of the kind is never asking.
type requests struct {
	to   io.Writer
	line []byte // the beginning of a line, as long as it may be one of those events
	pass bool   // the rest of the line is passed on as it comes

	mu     sync.Mutex
	asking map[string]bool // by the call that the asking subagent was started with; "" is the agent itself
	last   bool            // the agent's last answer calls no tool, so the child is about to end
	quiet  chan struct{}   // gets one when the child has stopped asking and goes on
}

func newRequests(to io.Writer) *requests {
	return &requests{to: to, asking: map[string]bool{}, quiet: make(chan struct{}, 1)}
}

// The beginnings of lines that are taken out.
var requestLines = [][]byte{[]byte(`{"type":"stream_event"`), []byte(`{"type":"system","subtype":"status"`)}

// maxRequestLine is the longest line that is looked into, in bytes.
const maxRequestLine = 4 << 20

// Write implements io.Writer.
func (r *requests) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		piece := p
		if end > 0 {
			piece = p[:end]
		}
		p = p[len(piece):]
		r.piece(piece, end > 0)
	}
	return n, nil
}

// piece takes a part of one line; whole says that the line ends with it.
func (r *requests) piece(piece []byte, whole bool) {
	if r.pass {
		_, _ = r.to.Write(piece)
		r.pass = !whole
		return
	}
	r.line = append(r.line, piece...)
	switch known := r.known(); {
	case known && whole:
		r.event(r.line)
		r.line = r.line[:0]
	case known && len(r.line) <= maxRequestLine, !whole && r.undecided():
	default:
		r.flush()
		r.pass = !whole
	}
}

// known reports whether the line is one of the events.
func (r *requests) known() bool {
	for _, l := range requestLines {
		if bytes.HasPrefix(r.line, l) {
			return true
		}
	}
	return false
}

// undecided reports whether the line can still become one of the events.
func (r *requests) undecided() bool {
	for _, l := range requestLines {
		if bytes.HasPrefix(l, r.line) {
			return true
		}
	}
	return false
}

// flush passes on what was held back.
func (r *requests) flush() {
	if len(r.line) > 0 {
		_, _ = r.to.Write(r.line)
		r.line = r.line[:0]
	}
}

func (r *requests) event(line []byte) {
	var e struct {
		Type   string `json:"type"`
		Status string `json:"status"`
		Parent string `json:"parent_tool_use_id"`
		Event  struct {
			Type  string `json:"type"`
			Delta struct {
				StopReason string `json:"stop_reason"`
			} `json:"delta"`
		} `json:"event"`
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case e.Type == "system" && e.Status == "requesting", e.Event.Type == "message_start":
		r.asking[e.Parent] = true
		if e.Parent == "" {
			r.last = false
		}
	case e.Event.Type == "message_delta" && e.Parent == "" && e.Event.Delta.StopReason != "":
		r.last = e.Event.Delta.StopReason != "tool_use"
	case e.Event.Type == "message_stop":
		delete(r.asking, e.Parent)
		if len(r.asking) == 0 && !r.last {
			select {
			case r.quiet <- struct{}{}:
			default:
			}
		}
	}
}

// busy reports whether ending the child now would cut something off: an answer of the model, or the child's own end after
// the last one.
func (r *requests) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asking) > 0 || r.last
}
