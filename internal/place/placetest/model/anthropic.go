package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Anthropic is Anthropic's Messages API.
const Anthropic = "anthropic"

// parseAnthropic parses a body of POST /v1/messages.
func parseAnthropic(body []byte) (Request, error) {
	var in struct {
		Model       string   `json:"model"`
		Stream      bool     `json:"stream"`
		Temperature *float64 `json:"temperature"`
		System      content  `json:"system"`
		Messages    []struct {
			Role    string  `json:"role"`
			Content content `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"input_schema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{API: Anthropic, Body: body, Model: in.Model, Stream: in.Stream, Temperature: in.Temperature, System: in.System.text()}
	for _, m := range in.Messages {
		message := Message{Role: m.Role}
		var texts content
		for _, p := range m.Content {
			switch p.Type {
			case "text":
				if isReminder(p.Text) { // the reminder becomes a separate message
					r.Messages = append(r.Messages, Message{Role: m.Role, Text: p.Text})
					continue
				}
				texts = append(texts, p)
			case "tool_use":
				message.Calls = append(message.Calls, Call{p.ID, p.Name, p.Input})
			case "tool_result":
				r.Messages = append(r.Messages, Message{Role: "tool", Text: p.Content.text(), CallID: p.ToolUseID, IsError: p.IsError})
			}
		}
		if message.Text = texts.text(); message.Text != "" || len(message.Calls) > 0 {
			r.Messages = append(r.Messages, message)
		}
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, Tool{t.Name, t.Description, t.InputSchema})
	}
	return r, nil
}

// anthropic writes answers of the Messages API.
type anthropic struct {
	eventStream
	request Request
	index   int
	blocks  []any
	// openText has the text of the open text block; nil if no block is open. In a stream, it stays empty.
	openText *strings.Builder
}

func newAnthropicWriter(w http.ResponseWriter, q Request) writer {
	return &anthropic{eventStream: eventStream{w}, request: q}
}

func (a *anthropic) fail(status int, message string) {
	dontRetry(a.w)
	writeJSON(a.w, status, map[string]any{"type": "error", "error": map[string]any{"type": errorKind(status), "message": message}})
}

func (a *anthropic) message(content []any, stop any, output int) map[string]any {
	return map[string]any{
		"id": "msg_" + newID(), "type": "message", "role": "assistant", "model": a.request.Model, "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": map[string]any{"input_tokens": InputTokens, "output_tokens": output},
	}
}

func (a *anthropic) begin() {
	if a.request.Stream {
		a.open()
		a.send("message_start", map[string]any{"type": "message_start", "message": a.message([]any{}, nil, 1)})
	}
}

func (a *anthropic) writeThought(s string) {
	if !a.request.Stream {
		a.blocks = append(a.blocks, map[string]any{"type": "thinking", "thinking": s, "signature": "c2ln"})
		return
	}
	a.startBlock(map[string]any{"type": "thinking", "thinking": "", "signature": ""})
	a.sendDelta(map[string]any{"type": "thinking_delta", "thinking": s})
	a.sendDelta(map[string]any{"type": "signature_delta", "signature": "c2ln"})
	a.stopBlock()
}

func (a *anthropic) writeText(s string) {
	if !a.request.Stream {
		if a.openText == nil {
			a.openText = &strings.Builder{}
		}
		a.openText.WriteString(s)
		return
	}
	if a.openText == nil {
		a.openText = &strings.Builder{}
		a.startBlock(map[string]any{"type": "text", "text": ""})
	}
	a.sendDelta(map[string]any{"type": "text_delta", "text": s})
}

func (a *anthropic) startBlock(block map[string]any) {
	a.send("content_block_start", map[string]any{"type": "content_block_start", "index": a.index, "content_block": block})
}

func (a *anthropic) sendDelta(d map[string]any) {
	a.send("content_block_delta", map[string]any{"type": "content_block_delta", "index": a.index, "delta": d})
}

// closeText ends the open text block.
func (a *anthropic) closeText() {
	if a.openText == nil {
		return
	}
	if a.request.Stream {
		a.stopBlock()
	} else {
		a.blocks = append(a.blocks, map[string]any{"type": "text", "text": a.openText.String()})
	}
	a.openText = nil
}

func (a *anthropic) stopBlock() {
	a.send("content_block_stop", map[string]any{"type": "content_block_stop", "index": a.index})
	a.index++
}

func (a *anthropic) writeCall(c Call) {
	a.closeText()
	if !a.request.Stream {
		a.blocks = append(a.blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Input})
		return
	}
	a.startBlock(map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": map[string]any{}})
	a.sendDelta(map[string]any{"type": "input_json_delta", "partial_json": string(c.Input)})
	a.stopBlock()
}

func (a *anthropic) end(hasCalls bool) {
	a.closeText()
	reason := "end_turn"
	if hasCalls {
		reason = "tool_use"
	}
	if !a.request.Stream {
		writeJSON(a.w, http.StatusOK, a.message(a.blocks, reason, OutputTokens))
		return
	}
	a.send("message_delta", map[string]any{
		"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil},
		"usage": map[string]any{"input_tokens": InputTokens, "output_tokens": OutputTokens},
	})
	a.send("message_stop", map[string]any{"type": "message_stop"})
}
