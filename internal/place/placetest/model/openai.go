package model

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// OpenAI is OpenAI's chat completions API.
const OpenAI = "openai"

// parseOpenAI parses a body of POST /v1/chat/completions.
func parseOpenAI(body []byte) (Request, error) {
	var in struct {
		Model       string   `json:"model"`
		Stream      bool     `json:"stream"`
		Temperature *float64 `json:"temperature"`
		Messages    []struct {
			Role       string  `json:"role"`
			Content    content `json:"content"`
			ToolCallID string  `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct {
					Name      string `json:"name"`
					Arguments string `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name        string          `json:"name"`
				Description string          `json:"description"`
				Parameters  json.RawMessage `json:"parameters"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	r := Request{API: OpenAI, Body: body, Model: in.Model, Stream: in.Stream, Temperature: in.Temperature}
	var system []string
	for _, m := range in.Messages {
		if m.Role == "system" || m.Role == "developer" {
			system = append(system, m.Content.text())
			continue
		}
		message := Message{Role: m.Role, Text: m.Content.text(), CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.Calls = append(message.Calls, Call{c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments)})
		}
		r.Messages = append(r.Messages, message)
	}
	r.System = strings.Join(system, "\n")
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, Tool{t.Function.Name, t.Function.Description, t.Function.Parameters})
	}
	return r, nil
}

// openAI writes answers of the chat completions API.
type openAI struct {
	eventStream
	request Request
	id      string
	content strings.Builder
	calls   []map[string]any
}

func newOpenAIWriter(w http.ResponseWriter, q Request) writer {
	return &openAI{eventStream: eventStream{w}, request: q, id: "chatcmpl-" + newID()}
}

func (a *openAI) fail(status int, message string) {
	dontRetry(a.w)
	writeJSON(a.w, status, openAIFailure(status, message))
}

var errorCodePattern = regexp.MustCompile(`^\[(\w+)\] `)

// openAIFailure returns the error object of OpenAI's APIs. The message may begin with the code of the error, in brackets.
func openAIFailure(status int, message string) map[string]any {
	var code any
	if m := errorCodePattern.FindStringSubmatch(message); m != nil {
		code, message = m[1], message[len(m[0]):]
	}
	return map[string]any{"error": map[string]any{"message": message, "type": errorKind(status), "code": code, "param": nil}}
}

func (a *openAI) chunk(delta map[string]any, finish any) map[string]any {
	return map[string]any{
		"id": a.id, "object": "chat.completion.chunk", "created": 1700000000, "model": a.request.Model,
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}},
	}
}

func (a *openAI) begin() {
	if a.request.Stream {
		a.open()
		a.send("", a.chunk(map[string]any{"role": "assistant", "content": ""}, nil))
	}
}

// writeThought sends the thought. An answer that is not streamed has no thought.
func (a *openAI) writeThought(s string) {
	if a.request.Stream {
		a.send("", a.chunk(map[string]any{"reasoning_content": s}, nil))
	}
}

func (a *openAI) writeText(s string) {
	if !a.request.Stream {
		a.content.WriteString(s)
		return
	}
	a.send("", a.chunk(map[string]any{"content": s}, nil))
}

func (a *openAI) writeCall(c Call) {
	f := map[string]any{"name": c.Name, "arguments": string(c.Input)}
	call := map[string]any{"index": len(a.calls), "id": c.ID, "type": "function", "function": f}
	a.calls = append(a.calls, call)
	if a.request.Stream {
		a.send("", a.chunk(map[string]any{"tool_calls": []any{call}}, nil))
	}
}

func (a *openAI) end(hasCalls bool) {
	reason := "stop"
	if hasCalls {
		reason = "tool_calls"
	}
	usage := map[string]any{"prompt_tokens": InputTokens, "completion_tokens": OutputTokens, "total_tokens": InputTokens + OutputTokens}
	if a.request.Stream {
		a.send("", a.chunk(map[string]any{}, reason))
		last := a.chunk(nil, nil)
		last["choices"], last["usage"] = []any{}, usage
		a.send("", last)
		_, _ = fmt.Fprint(a.w, "data: [DONE]\n\n")
		return
	}
	message := map[string]any{"role": "assistant", "content": a.content.String()}
	if hasCalls {
		message["tool_calls"] = a.calls
	}
	writeJSON(a.w, http.StatusOK, map[string]any{
		"id": a.id, "object": "chat.completion", "created": 1700000000, "model": a.request.Model, "usage": usage,
		"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": reason}},
	})
}
