package acp

import (
	"cmp"
	"encoding/json"
	"strings"
)

// ToolCall is a tool call of an agent, combined from all updates about it.
type ToolCall struct {
	ID     string
	Parent string          // id of the call whose subagent made this call; empty for a call of the main agent
	Name   string          // the tool's name or, if it is unknown, the call's title or kind
	Text   string          // a description for people, in one line
	Input  json.RawMessage // nil if it is unknown
	Edits  []Edit          // changes of files; only after the call's end
}

// Edit is a change of a file: Old is replaced by New. Both are the whole file or a part of it. Old is empty if the file is new.
type Edit struct {
	Path string
	Old  string
	New  string
}

// Calls combines the updates about tool calls. A call may have several updates.
type Calls struct {
	calls    map[string]call // calls that have not ended, by id, as the updates so far describe them
	reported map[string]bool // calls that Begin has returned
	open     map[string]bool // calls that Begin has returned and that have not ended
	// commandOutput is the output of commands that Codex reports in pieces.
	commandOutput map[string]string
}

// maxCommandOutput is the size in bytes from which Calls ignores further pieces of a command's output.
const maxCommandOutput = 256 << 10

// NewCalls returns an empty Calls.
func NewCalls() *Calls {
	return &Calls{calls: map[string]call{}, reported: map[string]bool{}, open: map[string]bool{}, commandOutput: map[string]string{}}
}

// Update handles an update of a session; it ignores an update that is not about a tool call. begun is the call when the updates
// first describe it well enough to report it, and nil otherwise. ended is the call if the update reports its end, and nil
// otherwise. result is then the text of its result, and failed reports whether the call has failed.
func (c *Calls) Update(update json.RawMessage) (begun, ended *ToolCall, result string, failed bool) {
	var u struct {
		Kind    string          `json:"sessionUpdate"`
		Status  string          `json:"status"`
		Content json.RawMessage `json:"content"`
		Output  json.RawMessage `json:"rawOutput"`
		Meta    struct {
			OutputDelta struct {
				Data string `json:"data"`
			} `json:"terminal_output_delta"`
		} `json:"_meta"`
	}
	var updated call
	if json.Unmarshal(update, &u) != nil || !strings.HasPrefix(u.Kind, "tool_call") || json.Unmarshal(update, &updated) != nil || updated.ID == "" {
		return nil, nil, "", false
	}
	before, known := c.calls[updated.ID]
	if !known && u.Kind == "tool_call_update" && c.reported[updated.ID] { // the update is about a call that has ended
		return nil, nil, "", false
	}
	updated.fillFrom(before)
	if known && updated.toolName() == "" { // the first title of a call is its name
		updated.Title = before.Title
	}
	if len(changedText(updated.Content)) < len(changedText(before.Content)) { // OpenCode first reports whole files, and then only the changed parts
		updated.Content = before.Content
	}
	c.calls[updated.ID] = updated
	if data := u.Meta.OutputDelta.Data; data != "" && len(c.commandOutput[updated.ID]) < maxCommandOutput {
		c.commandOutput[updated.ID] += data
	}
	finished := u.Status == "completed" || u.Status == "failed"
	// The arguments of a pending call may follow later: OpenCode first sends only the directory, and Claude Code nothing.
	if len(updated.subjects()) > 0 || known && !isEmptyInput(updated.RawInput) || u.Status != "" && u.Status != "pending" {
		begun = c.Begin(updated.ID)
	}
	if !finished {
		return begun, nil, "", false
	}
	delete(c.open, updated.ID)
	delete(c.calls, updated.ID)
	if json.Unmarshal(u.Output, &result) != nil || result == "" { // a text is the result that the model reads; contents may be formatted for people
		result = cmp.Or(contentText(u.Content), c.commandOutput[updated.ID])
	}
	delete(c.commandOutput, updated.ID)
	if result == "" && !isEmptyInput(u.Output) {
		result = string(u.Output)
	}
	ended = updated.toolCall()
	ended.Edits = editsIn(updated.Content)
	return begun, ended, result, u.Status == "failed"
}

// Deny records that the call was denied, so that it no longer counts as open. It returns the call, or nil if it is unknown.
func (c *Calls) Deny(id string) *ToolCall {
	delete(c.open, id)
	knownCall, ok := c.calls[id]
	if !ok {
		return nil
	}
	return knownCall.toolCall()
}

// Begin returns the call and counts it as open, or returns nil if the call is unknown or was reported before. A call
// that needs a permission is reported before it starts.
func (c *Calls) Begin(id string) *ToolCall {
	knownCall, ok := c.calls[id]
	if !ok || c.reported[id] {
		return nil
	}
	c.reported[id], c.open[id] = true, true
	return knownCall.toolCall()
}

// OpenCount returns the number of calls that have started and have not ended.
func (c *Calls) OpenCount() int { return len(c.open) }

// EndAll records that no call is open, because the turn has ended.
func (c *Calls) EndAll() { clear(c.open) }

// toolName returns the name of the tool, or an empty text if the program does not report it. The protocol has no field for the
// name. Gemini CLI reports no arguments, but its ids of calls start with the name of the tool.
func (c call) toolName() string {
	if name, _, ok := strings.Cut(c.ID, "__"); ok && len(c.RawInput) == 0 && c.Meta.Claude.Tool == "" {
		return name
	}
	return c.Meta.Claude.Tool
}

// toolCall returns the call without its edits.
func (c call) toolCall() *ToolCall {
	named, title := c.toolName(), strings.Trim(strings.TrimSpace(c.Title), "`")
	subject := ""
	if all := c.subjects(); len(all) > 0 {
		subject = all[0]
	}
	name := cmp.Or(named, title, c.Kind)
	if named == "" && (strings.Contains(title, " ") || title == subject) && c.Kind != "" && c.Kind != "other" { // it describes the call
		name = c.Kind
	}
	t := &ToolCall{ID: c.ID, Parent: c.Meta.Claude.Parent, Name: name, Input: c.RawInput}
	switch {
	case subject != "" && (named != "" || !strings.Contains(title, subject)):
		t.Text = t.Name + ": " + subject
	case named != "" && title != "" && title != named:
		t.Text = t.Name + ": " + title
	case named == "" && c.Kind != "" && c.Kind != "other" && !strings.EqualFold(c.Kind, title):
		t.Text = c.Kind + ": " + title
	default:
		t.Text = t.Name
	}
	return t
}

// editsIn returns the changes of files in the content of a tool call.
func editsIn(content json.RawMessage) (all []Edit) {
	var list []struct {
		Type string `json:"type"`
		Path string `json:"path"`
		Old  string `json:"oldText"`
		New  string `json:"newText"`
	}
	_ = json.Unmarshal(content, &list) // other content names no files
	for _, b := range list {
		if b.Type == "diff" && b.Path != "" {
			all = append(all, Edit{b.Path, b.Old, b.New})
		}
	}
	return all
}

// changedText returns all texts in the changes of files in the content of a tool call.
func changedText(raw json.RawMessage) string {
	var all strings.Builder
	for _, e := range editsIn(raw) {
		all.WriteString(e.Old + e.New)
	}
	return all.String()
}

// contentText returns the text in the content of a tool call or, if it has none, the names of the changed files.
func contentText(raw json.RawMessage) string {
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
	var texts, files []string
	for _, b := range list {
		switch {
		case b.Content.Text != "":
			texts = append(texts, b.Content.Text)
		case b.Type == "diff":
			files = append(files, "changed "+b.Path)
		}
	}
	if len(texts) == 0 {
		texts = files
	}
	return strings.Join(texts, "\n")
}
