package acp

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
)

// Types of lines.
const (
	LineAgent      = "agent"      // the program has said who it is: Name, Version
	LineSession    = "session"    // the session has begun: Session, Resumed, Text if it is not the one that was asked for
	LineState      = "state"      // the turn's state has changed: State
	LineText       = "text"       // the agent writes: Text, a piece of the message ID
	LineThought    = "thought"    // the agent thinks: Text, a piece of the message ID
	LineUpdate     = "update"     // the program reported something: Update, as the protocol has it
	LinePermission = "permission" // a permission was asked for and answered: ID, Title, Allowed, Text says why
	LineTurn       = "turn"       // a turn has ended: StopReason, Usage
	LineError      = "error"      // the run has failed: Text
)

// The states of a turn.
const (
	StateRunning        = "running"
	StateIdle           = "idle"
	StateRequiresAction = "requires_action"
)

// Line is one line of the output.
type Line struct {
	Type       string          `json:"type"`
	Name       string          `json:"name,omitempty"`
	Version    string          `json:"version,omitempty"`
	Session    string          `json:"session,omitempty"`
	Resumed    bool            `json:"resumed,omitempty"`
	State      string          `json:"state,omitempty"`
	Update     json.RawMessage `json:"update,omitempty"`
	ID         string          `json:"id,omitempty"`
	Title      string          `json:"title,omitempty"`
	Allowed    bool            `json:"allowed,omitempty"`
	StopReason string          `json:"stop_reason,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"`
	Text       string          `json:"text,omitempty"`
}

// Usage is what a turn used of the model, where the program says it. What was read from or written to a cache is part of
// the input.
type Usage struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// output writes lines. Texts come in small pieces, which are put together for a moment.
type output struct {
	mu    sync.Mutex
	to    io.Writer
	held  Line        // a text that is held back; its Text is empty: none
	timer *time.Timer // writes it
}

// How long a text is held back, and how much of it.
const (
	holdTime = 300 * time.Millisecond
	holdSize = 4 << 10
)

// text takes a piece of a text.
func (o *output) text(l Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.held.Type != l.Type || o.held.ID != l.ID {
		o.flush()
	}
	l.Text = o.held.Text + l.Text
	if o.held = l; l.Text == "" {
		return
	}
	if strings.Contains(l.Text, "\n") || len(l.Text) >= holdSize {
		o.flush()
	} else if o.timer == nil {
		o.timer = time.AfterFunc(holdTime, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flush()
		})
	}
}

// flush writes the text that is held back.
func (o *output) flush() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if l := o.held; l.Text != "" {
		o.held = Line{}
		o.put(l)
	}
}

func (o *output) write(l Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	o.put(l)
}

func (o *output) put(l Line) {
	b, err := json.Marshal(l)
	if err != nil { // an update that is not JSON, which the connection does not let through
		return
	}
	_, _ = o.to.Write(append(b, '\n')) // a supervisor that is gone has ended the run
}
