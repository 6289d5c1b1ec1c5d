//go:build cgo

package run

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"fleet/internal/fleet"
)

// streamConverter converts the events of a model's stream, of any API, to events that the library's clients understand. The
// library fails on some events that it does not know, drops the text of others, and does not read all usage. So
// streamConverter passes on only the events and parts that the library knows, and puts their text where the library looks for
// it.
type streamConverter struct {
	ended  bool // the answer is complete; its usage may follow
	closed bool // no event follows

	// blocks has the content blocks by index. It is used only for the Messages API.
	blocks map[int]*block
}

// block is a content block of the Messages API.
type block struct {
	known bool            // the library knows the type of the block
	input json.RawMessage // the input of a tool call that came with its start; nil if it comes in parts
}

// chunk has the parts of an event, of any API, that streamConverter reads.
type chunk struct {
	Type     string          `json:"type"`
	Error    json.RawMessage `json:"error"`
	Message  json.RawMessage `json:"message"` // an object in message_start, a text in an error
	Usage    json.RawMessage `json:"usage"`
	Delta    json.RawMessage `json:"delta"`
	Response struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Usage *responsesUsage `json:"usage"`
	} `json:"response"`
	Choices []chatChoice `json:"choices"`
	Groq    struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"x_groq"`
	Candidates []struct {
		FinishReason string `json:"finishReason"`
	} `json:"candidates"`
	PromptFeedback any          `json:"promptFeedback"` // comes instead of candidates if the prompt was refused
	GeminiUsage    *geminiUsage `json:"usageMetadata"`
	Index          int          `json:"index"`
	Block          struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Input json.RawMessage `json:"input"`
	} `json:"content_block"`
}

// convert returns the events for the client in place of the event. It records usage and errors in the exchange.
func (s *streamConverter) convert(x *exchange, name string, data []byte) []sseEvent {
	if string(data) == "[DONE]" {
		s.ended, s.closed = true, true
		return []sseEvent{{name, data}}
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); !ok {
			return []sseEvent{{name, data}} // the client reports the error
		} // else everything of the expected type has been read
	}
	if len(c.Error) > 0 && string(c.Error) != "null" || c.Type == "error" {
		s.ended, s.closed = true, true
		_ = x.setError(errors.New("it reported an error in its answer: " + fleet.Shorten(errorText(c), 1000)))
		return []sseEvent{{name, data}}
	}
	switch {
	case strings.HasPrefix(c.Type, "response."):
		return s.convertResponses(x, c, data)
	case c.Type != "" && c.Choices == nil && c.Candidates == nil:
		return s.convertMessages(x, c, data)
	case c.Candidates != nil || c.GeminiUsage != nil || c.PromptFeedback != nil:
		s.readGemini(x, c)
		return []sseEvent{{"", data}}
	}
	return s.convertChat(x, c, data)
}

// errorText returns the message of an error in a stream.
func errorText(c chunk) string {
	var e struct {
		Message string `json:"message"`
	}
	var text string
	_ = json.Unmarshal(c.Error, &e) // an error that is not an object has no message
	if json.Unmarshal(c.Error, &text) != nil {
		_ = json.Unmarshal(c.Message, &text) // not every error has a text
	}
	return cmp.Or(e.Message, text, string(c.Error), "unknown error")
}

// readGemini reads an event of the Gemini API. Such events need no conversion.
func (s *streamConverter) readGemini(x *exchange, c chunk) {
	for _, candidate := range c.Candidates {
		s.ended = s.ended || candidate.FinishReason != ""
		x.setTruncated(candidate.FinishReason == "MAX_TOKENS")
	}
	s.ended = s.ended || c.PromptFeedback != nil && len(c.Candidates) == 0
	if c.GeminiUsage != nil {
		x.replaceUsage(c.GeminiUsage.tokens())
	}
}

// convertResponses converts an event of the Responses API.
func (s *streamConverter) convertResponses(x *exchange, c chunk, data []byte) []sseEvent {
	name := c.Type
	switch c.Type {
	case "response.failed":
		s.ended, s.closed = true, true
		_ = x.setError(errors.New("it reported an error in its answer: " + fleet.Shorten(cmp.Or(c.Response.Error.Message, "unknown error"), 1000)))
	case "response.incomplete": // the library does not know it
		name = "response.completed"
		x.setTruncated(true)
		fallthrough
	case "response.completed", "response.done":
		s.ended, s.closed = true, true
	case "response.refusal.delta":
		name = "response.output_text.delta"
	}
	if c.Response.Usage != nil {
		x.replaceUsage(c.Response.Usage.tokens())
	}
	if name != c.Type {
		data = editJSON(data, func(e map[string]any) { e["type"] = name })
	}
	return []sseEvent{{name, data}}
}

// chatChoice is one of the answers in an event of chat completions. A request asks for one answer.
type chatChoice struct {
	FinishReason string `json:"finish_reason"`
	Delta        struct {
		Content json.RawMessage `json:"content"`
		Refusal string          `json:"refusal"`
		Calls   []struct {
			ID       string `json:"id"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"delta"`
}

// convertChat converts an event of chat completions.
func (s *streamConverter) convertChat(x *exchange, c chunk, data []byte) []sseEvent {
	for _, raw := range []json.RawMessage{c.Groq.Usage, c.Usage} {
		var u *chatUsage
		if json.Unmarshal(raw, &u) == nil && u != nil {
			x.replaceUsage(u.tokens())
		}
	}
	var changes []func(map[string]any)
	if c.Error != nil {
		changes = append(changes, func(e map[string]any) { delete(e, "error") }) // the client would treat null as an error
	}
	for i, choice := range c.Choices {
		s.ended = s.ended || choice.FinishReason != ""
		x.setTruncated(choice.FinishReason == "length")
		changeDelta := func(change func(map[string]any)) {
			changes = append(changes, func(e map[string]any) {
				choices, _ := e["choices"].([]any)
				one, _ := choices[i].(map[string]any)
				if d, ok := one["delta"].(map[string]any); ok {
					change(d)
				}
			})
		}
		if content := bytes.TrimSpace(choice.Delta.Content); len(content) > 0 && content[0] == '[' {
			changeDelta(func(d map[string]any) { d["content"] = textOf(content) })
		} else if choice.Delta.Refusal != "" {
			changeDelta(func(d map[string]any) {
				content, _ := d["content"].(string)
				d["content"] = content + choice.Delta.Refusal
			})
		}
		for n, call := range choice.Delta.Calls {
			if call.ID == "" && call.Function.Name != "" { // without ids, the library would treat all calls as one
				changeDelta(func(d map[string]any) {
					calls, _ := d["tool_calls"].([]any)
					if one, ok := calls[n].(map[string]any); ok {
						one["id"] = "call_" + rand.Text()
					}
				})
			}
		}
	}
	if len(changes) > 0 {
		data = editJSON(data, func(e map[string]any) {
			for _, change := range changes {
				change(e)
			}
		})
	}
	return []sseEvent{{"", data}}
}

// textOf returns the text in a list of parts of a message. It leaves out other parts.
func textOf(content []byte) string {
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // a list of another form has no text
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "text" || p.Type == "output_text" {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// convertMessages converts an event of the Messages API.
func (s *streamConverter) convertMessages(x *exchange, c chunk, data []byte) []sseEvent {
	original := []sseEvent{{c.Type, data}}
	switch c.Type {
	case "message_start":
		var m struct {
			Usage *messagesUsage `json:"usage"`
		}
		if json.Unmarshal(c.Message, &m) == nil && m.Usage != nil {
			x.mergeUsage(*m.Usage)
		}
		return original
	case "message_delta":
		var u *messagesUsage
		if json.Unmarshal(c.Usage, &u) == nil && u != nil {
			x.mergeUsage(*u)
		}
		var d struct {
			StopReason string `json:"stop_reason"`
		}
		_ = json.Unmarshal(c.Delta, &d) // without a reason, the answer was not cut off
		x.setTruncated(d.StopReason == "max_tokens" || d.StopReason == "model_context_window_exceeded")
		return original
	case "message_stop":
		s.ended, s.closed = true, true
		return original
	case "content_block_start":
		return s.convertBlockStart(c, original)
	case "content_block_delta":
		return s.convertBlockDelta(c, original)
	case "content_block_stop":
		return s.convertBlockStop(c, original)
	}
	return nil
}

// knownBlocks are the types of content blocks that the library reads.
var knownBlocks = map[string]bool{"text": true, "thinking": true, "redacted_thinking": true, "tool_use": true}

// knownDeltas are the types of deltas of content blocks that the library reads. The library fails on other types.
var knownDeltas = map[string]bool{"text_delta": true, "thinking_delta": true, "signature_delta": true, "input_json_delta": true}

func (s *streamConverter) convertBlockStart(c chunk, original []sseEvent) []sseEvent {
	b := &block{known: knownBlocks[c.Block.Type]}
	if s.blocks == nil {
		s.blocks = map[int]*block{}
	}
	s.blocks[c.Index] = b
	if !b.known {
		return nil
	}
	if input := bytes.TrimSpace(c.Block.Input); c.Block.Type == "tool_use" && len(input) > 2 && input[0] == '{' {
		b.input = input
	}
	if c.Block.Type == "text" && c.Block.Text != "" { // the library reads text only from deltas
		return append(original, blockPart(c.Index, map[string]any{"type": "text_delta", "text": c.Block.Text}))
	}
	return original
}

func (s *streamConverter) convertBlockDelta(c chunk, original []sseEvent) []sseEvent {
	var d struct {
		Type string `json:"type"`
	}
	b := s.blocks[c.Index]
	if json.Unmarshal(c.Delta, &d) != nil || !knownDeltas[d.Type] || b != nil && !b.known {
		return nil
	}
	if d.Type == "input_json_delta" {
		if b == nil {
			return nil // the call has no start, and therefore no id
		}
		b.input = nil
	}
	return original
}

func (s *streamConverter) convertBlockStop(c chunk, original []sseEvent) []sseEvent {
	b := s.blocks[c.Index]
	switch {
	case b != nil && !b.known:
		return nil
	case b != nil && b.input != nil:
		return append([]sseEvent{blockPart(c.Index, map[string]any{"type": "input_json_delta", "partial_json": string(b.input)})}, original...)
	}
	return original
}

// blockPart returns an event with the delta of a content block.
func blockPart(index int, delta map[string]any) sseEvent {
	data, _ := json.Marshal(map[string]any{"type": "content_block_delta", "index": index, "delta": delta}) // texts can always be encoded
	return sseEvent{"content_block_delta", data}
}

// editJSON returns the JSON object after the change. It returns data unchanged if data is not a JSON object.
func editJSON(data []byte, change func(map[string]any)) []byte {
	var e map[string]any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if d.Decode(&e) != nil || e == nil {
		return data
	}
	change(e)
	out, err := json.Marshal(e)
	if err != nil {
		return data
	}
	return out
}
