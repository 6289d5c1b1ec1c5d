package acp

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"fleet/internal/fleet"
)

// Types of lines.
const (
	LineAgent             = "agent"      // the program has introduced itself: Name, Version
	LineSession           = "session"    // a session has started: Session, Resumed, Model if it is known, and Text with the reason if the requested session is lost
	LineState             = "state"      // the turn's state has changed: State
	LineText              = "text"       // a piece of the message with the ID: Text, and Parent if a subagent wrote it
	LineThought           = "thought"    // a piece of the agent's thoughts, with the fields of LineText
	LineUpdate            = "update"     // an update of the program: Update, in the protocol's format
	LinePermissionRequest = "asked"      // a request for permission has arrived: Update has its call, in the format of an update
	LinePermissionAnswer  = "permission" // a request for permission was answered: ID, Title, Allowed, Text with the reason
	LineClaude            = "claude"     // an event of Claude Code that its adapter has passed on: Update, in the format of Claude Code
	LineTurn              = "turn"       // a turn has ended: StopReason, Usage, Models
	LineError             = "error"      // the run has failed: Text
)

// States of a turn.
const (
	StateRunning        = "running"
	StateIdle           = "idle"
	StateRequiresAction = "requires_action"
)

// Line is one line of the output. Type says which other fields are set.
type Line struct {
	Type       string          `json:"type"`
	Name       string          `json:"name,omitempty"`
	Version    string          `json:"version,omitempty"`
	Session    string          `json:"session,omitempty"`
	Resumed    bool            `json:"resumed,omitempty"`
	State      string          `json:"state,omitempty"`
	Update     json.RawMessage `json:"update,omitempty"`
	At         int64           `json:"at,omitempty"` // when an update, a request or its answer arrived, in Unix milliseconds
	ID         string          `json:"id,omitempty"`
	Parent     string          `json:"parent,omitempty"` // the call of the subagent that wrote the text; empty for the main agent
	Title      string          `json:"title,omitempty"`
	Allowed    bool            `json:"allowed,omitempty"`
	StopReason string          `json:"stop_reason,omitempty"`
	Usage      *Usage          `json:"usage,omitempty"`
	Models     []Usage         `json:"models,omitempty"` // the usage by model; it may include more than Usage, for example the usage of subagents
	Model      string          `json:"model,omitempty"`  // the model of the session
	Text       string          `json:"text,omitempty"`
	// Code says for programs why the run has failed; empty if no code is known.
	Code fleet.ReasonCode `json:"code,omitempty"`
}

// output writes lines. It joins small pieces of the same message that arrive within joinTime.
type output struct {
	mu      sync.Mutex
	to      io.Writer
	pending Line        // a text that is held back, unless its Text is empty
	timer   *time.Timer // writes the text that is held back
}

// joinTime is how long a text is held back.
var joinTime = 300 * time.Millisecond

// joinSize is the size in bytes from which a text is written at once.
const joinSize = 4 << 10

// addText writes the piece of a text, or holds it back.
func (o *output) addText(l Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending.Type != l.Type || o.pending.ID != l.ID || o.pending.Parent != l.Parent {
		o.flush()
	}
	l.Text = o.pending.Text + l.Text
	if o.pending = l; l.Text == "" {
		return
	}
	if strings.Contains(l.Text, "\n") || len(l.Text) >= joinSize {
		o.flush()
	} else if o.timer == nil {
		o.timer = time.AfterFunc(joinTime, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.flush()
		})
	}
}

// flush writes the text that is held back. The caller must hold mu.
func (o *output) flush() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if l := o.pending; l.Text != "" {
		o.pending = Line{}
		o.writeJSON(l)
	}
}

// write writes the text that is held back, and then the line.
func (o *output) write(l Line) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flush()
	o.writeJSON(l)
}

// writeJSON writes the line. The caller must hold mu.
func (o *output) writeJSON(l Line) {
	b, err := json.Marshal(l)
	if err != nil { // impossible: the connection passes on only updates that are JSON
		return
	}
	_, _ = o.to.Write(append(b, '\n')) // an error means that the supervisor has ended, and with it the run
}
