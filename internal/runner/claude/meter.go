package claude

import (
	"encoding/json"
	"maps"
	"time"
)

// meter measures how long tool calls take, and what each request to the model uses. Claude Code's message events do not
// report these times, and their usage is not final.
type meter struct {
	calls     map[string]time.Time        // when tool calls began, by id
	answers   map[string]*answer          // the model's current answers; the key is the id of the tool call that started the subagent, or "" for the agent itself
	writeNote func(fields map[string]any) // writes a line of Fleet's own to the output
}

// answer is an answer of the model that has begun.
type answer struct {
	id, model string
	usage     map[string]json.RawMessage
}

// streamEvent is an event of the model's API.
type streamEvent struct {
	Type    string `json:"type"`
	Message struct {
		ID    string                     `json:"id"`
		Model string                     `json:"model"`
		Usage map[string]json.RawMessage `json:"usage"`
	} `json:"message"` // of message_start
	Usage map[string]json.RawMessage `json:"usage"` // of message_delta
}

// handleEvent handles an event of the model's API. parent is the tool call of the subagent to which the event belongs; "" is the
// agent itself.
func (m *meter) handleEvent(parent string, e streamEvent) {
	switch e.Type {
	case "message_start":
		a := &answer{e.Message.ID, e.Message.Model, e.Message.Usage}
		m.answers[parent] = a
		m.writeUsage(parent, a, false)
	case "message_delta":
		a := m.answers[parent]
		if a == nil || e.Usage == nil {
			return
		}
		delete(m.answers, parent)
		if a.usage == nil {
			a.usage = map[string]json.RawMessage{}
		}
		maps.Copy(a.usage, e.Usage)
		m.writeUsage(parent, a, true)
	}
}

// writeUsage writes a line with the usage of an answer so far. final means that the answer is complete.
func (m *meter) writeUsage(parent string, a *answer, final bool) {
	fields := map[string]any{"subtype": "usage", "final": final, "message": map[string]any{"id": a.id, "model": a.model, "usage": a.usage}}
	if parent != "" {
		fields["parent_tool_use_id"] = parent
	}
	m.writeNote(fields)
}

// maxCalls limits how many tool calls are measured at a time. Claude Code runs far fewer.
const maxCalls = 1000

// handleContent handles the content of a message, in which tool calls begin and end.
func (m *meter) handleContent(content json.RawMessage) {
	var blocks []struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		ToolUseID string `json:"tool_use_id"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return // a text
	}
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use" && len(m.calls) < maxCalls:
			m.calls[b.ID] = time.Now()
		case b.Type == "tool_result":
			start, ok := m.calls[b.ToolUseID]
			if !ok {
				continue
			}
			delete(m.calls, b.ToolUseID)
			m.writeNote(map[string]any{"subtype": "tool_time", "tool_use_id": b.ToolUseID, "ms": time.Since(start).Milliseconds()})
		}
	}
}
