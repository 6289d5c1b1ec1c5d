package acp

import (
	"encoding/json"
	"strings"
)

// Tool describes a tool call, for people and for programs.
type Tool struct {
	ID    string
	Name  string
	Text  string // a description in one line
	Input json.RawMessage
	Edits []Edit // changes of files; only after the call's end
}

// Edit is a change of a file. Old is empty if the file is new.
type Edit struct {
	Path string
	Old  string
	New  string
}

// Calls combines the updates about tool calls. A call may have several updates.
type Calls struct {
	calls map[string]call
	begun map[string]bool
	open  map[string]bool
}

// NewCalls returns an empty Calls.
func NewCalls() *Calls {
	return &Calls{calls: map[string]call{}, begun: map[string]bool{}, open: map[string]bool{}}
}

// Update handles an update. begun is the call when the updates first describe it well enough to report it, and nil
// otherwise. ended is the call if the update reports the call's end, with its result, and nil otherwise.
func (c *Calls) Update(update json.RawMessage) (begun, ended *Tool, result string, failed bool) {
	var u struct {
		Kind    string          `json:"sessionUpdate"`
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"rawOutput"`
	}
	var now call
	if json.Unmarshal(update, &u) != nil || !strings.HasPrefix(u.Kind, "tool_call") || json.Unmarshal(update, &now) != nil || now.ID == "" {
		return nil, nil, "", false
	}
	before, known := c.calls[now.ID]
	if !known && u.Kind == "tool_call_update" && c.begun[now.ID] { // the update is about a call that has ended
		return nil, nil, "", false
	}
	if known { // the first title of a call is its name
		now.Title = before.Title
	}
	now.merge(before)
	c.calls[now.ID] = now
	over := u.Status == "completed" || u.Status == "failed"
	// The arguments of a pending call may follow later: opencode first sends only the directory.
	if len(now.subjects()) > 0 || u.Status != "" && u.Status != "pending" {
		begun = c.Begin(now.ID)
	}
	if !over {
		return begun, nil, "", false
	}
	delete(c.open, now.ID)
	delete(c.calls, now.ID)
	result = contents(u.Content)
	if result == "" && !empty(u.Output) {
		result = string(u.Output)
		var s string
		if json.Unmarshal(u.Output, &s) == nil {
			result = s
		}
	}
	ended = now.tool()
	ended.Edits = edits(u.Content)
	return begun, ended, result, u.Status == "failed"
}

// Begin returns the call and counts it as open, or returns nil if the call is unknown or was reported before. A call
// that needs a permission is reported before it starts.
func (c *Calls) Begin(id string) *Tool {
	now, ok := c.calls[id]
	if !ok || c.begun[id] {
		return nil
	}
	c.begun[id], c.open[id] = true, true
	return now.tool()
}

// Open returns the number of calls that have started and have not ended.
func (c *Calls) Open() int { return len(c.open) }

// End ends all calls, because the turn has ended.
func (c *Calls) End() { clear(c.open) }

func (c call) tool() *Tool {
	t := &Tool{ID: c.ID, Name: c.Meta.Claude.Tool, Input: c.RawInput}
	title := strings.Trim(strings.TrimSpace(c.Title), "`")
	if t.Name == "" {
		t.Name = title
	}
	if t.Name == "" {
		t.Name = c.Kind
	}
	subject := ""
	if all := c.subjects(); len(all) > 0 {
		subject = all[0]
	}
	switch {
	case subject != "" && !strings.Contains(title, subject):
		t.Text = t.Name + ": " + subject
	case c.Meta.Claude.Tool != "":
		t.Text = t.Name + ": " + title
	case c.Kind != "" && c.Kind != "other" && !strings.EqualFold(c.Kind, title):
		t.Text = c.Kind + ": " + title
	default:
		t.Text = t.Name
	}
	return t
}

// edits returns the changes of files in a tool result.
func edits(raw json.RawMessage) []Edit {
	var list []struct {
		Type string `json:"type"`
		Path string `json:"path"`
		Old  string `json:"oldText"`
		New  string `json:"newText"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	var all []Edit
	for _, b := range list {
		if b.Type == "diff" && b.Path != "" {
			all = append(all, Edit{b.Path, b.Old, b.New})
		}
	}
	return all
}

// contents returns the text of a tool result.
func contents(raw json.RawMessage) string {
	var list []struct {
		Type    string `json:"type"`
		Path    string `json:"path"`
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if json.Unmarshal(raw, &list) != nil {
		return ""
	}
	var texts []string
	for _, b := range list {
		switch {
		case b.Content.Text != "":
			texts = append(texts, b.Content.Text)
		case b.Type == "diff":
			texts = append(texts, "changed "+b.Path)
		}
	}
	return strings.Join(texts, "\n")
}
