package shim

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"sync"
)

// modelRequests detects from the child's output whether a request to its model is active. So an interrupt can wait
// until the request is complete, because its answer is paid for and useful. modelRequests reads the events of Claude
// Code's option --include-partial-messages. It removes them from the output, because other events repeat their content.
//
// If a child prints no such events, modelRequests reports no active request.
type modelRequests struct {
	to     io.Writer
	line   []byte // the start of a line that may be one of these events
	passOn bool   // the rest of the current line is passed on

	mu          sync.Mutex
	active      map[string]bool // active requests, by the call that started the subagent; "" is the agent itself
	finalAnswer bool            // the agent's last answer has no tool call, so the child is about to end
	idle        chan struct{}   // gets a value when no request is active and the child continues
	turnEnded   chan struct{}   // gets a value when a turn has ended
}

func newModelRequests(to io.Writer) *modelRequests {
	return &modelRequests{to: to, active: map[string]bool{}, idle: make(chan struct{}, 1), turnEnded: make(chan struct{}, 1)}
}

// eventPrefixes are the prefixes of the lines that are removed.
var eventPrefixes = [][]byte{[]byte(`{"type":"stream_event"`), []byte(`{"type":"system","subtype":"status"`)}

// resultPrefix is the prefix of the line that ends a turn. The line stays in the output.
var resultPrefix = []byte(`{"type":"result"`)

// maxRequestLine limits the size of an event, in bytes. A longer line is passed on like other output.
const maxRequestLine = 4 << 20

// Write implements io.Writer.
func (r *modelRequests) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n') + 1
		piece := p
		if end > 0 {
			piece = p[:end]
		}
		p = p[len(piece):]
		r.handlePart(piece, end > 0)
	}
	return n, nil
}

// handlePart handles a part of one line. last means that the line ends with this part.
func (r *modelRequests) handlePart(piece []byte, last bool) {
	if r.passOn {
		_, _ = r.to.Write(piece)
		r.passOn = !last
		return
	}
	r.line = append(r.line, piece...)
	switch known := r.isEvent(); {
	case known && last:
		r.handleEvent(r.line)
		r.line = r.line[:0]
	case known && len(r.line) <= maxRequestLine, !last && r.mayBeEvent():
	default:
		r.flush()
		r.passOn = !last
	}
}

// isEvent reports whether the line is one of the events.
func (r *modelRequests) isEvent() bool {
	return slices.ContainsFunc(eventPrefixes, func(prefix []byte) bool { return bytes.HasPrefix(r.line, prefix) })
}

// mayBeEvent reports whether the line may still become one of the events, or the result.
func (r *modelRequests) mayBeEvent() bool {
	return bytes.HasPrefix(resultPrefix, r.line) || slices.ContainsFunc(eventPrefixes, func(prefix []byte) bool { return bytes.HasPrefix(prefix, r.line) })
}

// flush passes on the part of a line that was held back. If it is the result, flush also reports that the turn has ended.
func (r *modelRequests) flush() {
	if len(r.line) > 0 {
		if bytes.HasPrefix(r.line, resultPrefix) {
			notify(r.turnEnded)
		}
		_, _ = r.to.Write(r.line)
		r.line = r.line[:0]
	}
}

// handleEvent updates the active requests. It ignores an invalid event.
func (r *modelRequests) handleEvent(line []byte) {
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
		r.active[e.Parent] = true
		if e.Parent == "" {
			r.finalAnswer = false
		}
	case e.Event.Type == "message_delta" && e.Parent == "" && e.Event.Delta.StopReason != "":
		r.finalAnswer = e.Event.Delta.StopReason != "tool_use"
	case e.Event.Type == "message_stop":
		delete(r.active, e.Parent)
		if len(r.active) == 0 && !r.finalAnswer {
			notify(r.idle)
		}
	}
}

// isBusy reports whether ending the child now would interrupt an answer of the model, or the child's own end after the
// model's last answer.
func (r *modelRequests) isBusy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.active) > 0 || r.finalAnswer
}
