package driver

import (
	"encoding/json"
	"strings"
)

// maxStepData limits a tool's arguments or result in an event, in bytes.
const maxStepData = 16 << 10

// toolCall returns the structured data of a tool call.
func toolCall(b claudeBlock) []byte {
	arguments := json.RawMessage(valid(string(b.Input)))
	if !json.Valid(arguments) || len(arguments) > maxStepData {
		arguments = quote(clip(string(arguments)))
	}
	return object(struct {
		Type      string          `json:"type"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{"tool_call", b.ID, toolName(b.Name), arguments})
}

// user handles the tool results in an event. It passes the results on if p.results is set.
func (p *claudeParser) user(e claudeEvent) []Piece {
	var blocks []claudeBlock
	if err := json.Unmarshal(e.Message.Content, &blocks); err != nil {
		return nil
	}
	var pieces []Piece
	for _, b := range blocks {
		if b.Type != "tool_result" {
			continue
		}
		delete(p.open, b.ToolUseID)
		if !p.results {
			pieces = append(pieces, Piece{}) // a sign of progress
			continue
		}
		name := toolName(p.usage.names[b.ToolUseID])
		if name == "" {
			name = "a tool"
		}
		result := clip(valid(textIn(b.Content)))
		pieces = append(pieces, Piece{
			Step: true, Text: toolAnswered(name, result, b.IsError), Data: toolResult(b.ToolUseID, name, result, b.IsError),
		})
	}
	return pieces
}

// toolAnswered describes a tool result in one line.
func toolAnswered(name, result string, failed bool) string {
	step := name + " answered"
	if failed {
		step = name + " failed"
	}
	if first := strings.TrimSpace(result); first != "" {
		step += ": " + first
	}
	return oneLine(step)
}

// toolResult returns the structured data of a tool result.
func toolResult(id, name, result string, failed bool) []byte {
	return object(struct {
		Type    string `json:"type"`
		ID      string `json:"id"`
		Name    string `json:"name"`
		Result  string `json:"result"`
		IsError bool   `json:"is_error"`
	}{"tool_result", id, name, result, failed})
}

// textIn returns the text of a content, which is a string or a list of blocks.
func textIn(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var blocks []claudeBlock
	_ = json.Unmarshal(content, &blocks)
	var texts []string
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		} else if b.Type != "" {
			texts = append(texts, "["+b.Type+"]")
		}
	}
	return strings.Join(texts, "\n")
}

// clip shortens s to maxStepData bytes. A shortened text ends with an ellipsis.
func clip(s string) string {
	if len(s) <= maxStepData {
		return s
	}
	return strings.ToValidUTF8(s[:maxStepData], "") + "…"
}

func quote(s string) json.RawMessage { return object(s) }

// object encodes v as JSON. v must be encodable.
func object(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
