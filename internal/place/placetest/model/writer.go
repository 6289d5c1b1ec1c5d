package model

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// writer writes one answer in the format of an API. The server calls begin, thought at most once, then text and call any
// number of times, then end. For an error, it calls only fail.
type writer interface {
	fail(status int, message string)
	begin()
	thought(s string)
	text(s string)
	call(c Call)
	end(hasCalls bool)
}

func newID() string { return "call_" + rand.Text()[:16] }

// eventStream writes server-sent events.
type eventStream struct{ w http.ResponseWriter }

func (e eventStream) open() {
	e.w.Header().Set("Content-Type", "text/event-stream")
	e.w.WriteHeader(http.StatusOK)
}

func (e eventStream) send(name string, v any) {
	b, _ := json.Marshal(v) // cannot fail: v consists of maps, slices, strings and numbers
	if name != "" {
		_, _ = fmt.Fprintf(e.w, "event: %s\n", name)
	}
	_, _ = fmt.Fprintf(e.w, "data: %s\n\n", b)
	e.w.(http.Flusher).Flush()
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

func anthropicWriter(w http.ResponseWriter, q Request) writer {
	return &anthropic{eventStream: eventStream{w}, request: q}
}

// errorKinds are the types of errors, by status.
var errorKinds = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}

// dontRetry tells the client not to repeat the request, so that the test sees this error. An answer that wants a retry sets
// X-Should-Retry itself.
func dontRetry(w http.ResponseWriter) {
	if w.Header().Get("X-Should-Retry") == "" {
		w.Header().Set("X-Should-Retry", "false")
	}
}

func errorKind(status int) string {
	if k := errorKinds[status]; k != "" {
		return k
	}
	return "api_error"
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

func (a *anthropic) thought(s string) {
	if !a.request.Stream {
		a.blocks = append(a.blocks, map[string]any{"type": "thinking", "thinking": s, "signature": "c2ln"})
		return
	}
	a.start(map[string]any{"type": "thinking", "thinking": "", "signature": ""})
	a.delta(map[string]any{"type": "thinking_delta", "thinking": s})
	a.delta(map[string]any{"type": "signature_delta", "signature": "c2ln"})
	a.stop()
}

func (a *anthropic) text(s string) {
	if !a.request.Stream {
		if a.openText == nil {
			a.openText = &strings.Builder{}
		}
		a.openText.WriteString(s)
		return
	}
	if a.openText == nil {
		a.openText = &strings.Builder{}
		a.start(map[string]any{"type": "text", "text": ""})
	}
	a.delta(map[string]any{"type": "text_delta", "text": s})
}

func (a *anthropic) start(block map[string]any) {
	a.send("content_block_start", map[string]any{"type": "content_block_start", "index": a.index, "content_block": block})
}

func (a *anthropic) delta(d map[string]any) {
	a.send("content_block_delta", map[string]any{"type": "content_block_delta", "index": a.index, "delta": d})
}

// closeText ends the open text block.
func (a *anthropic) closeText() {
	if a.openText == nil {
		return
	}
	if a.request.Stream {
		a.stop()
	} else {
		a.blocks = append(a.blocks, map[string]any{"type": "text", "text": a.openText.String()})
	}
	a.openText = nil
}

func (a *anthropic) stop() {
	a.send("content_block_stop", map[string]any{"type": "content_block_stop", "index": a.index})
	a.index++
}

func (a *anthropic) call(c Call) {
	a.closeText()
	if !a.request.Stream {
		a.blocks = append(a.blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Input})
		return
	}
	a.start(map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": map[string]any{}})
	a.delta(map[string]any{"type": "input_json_delta", "partial_json": string(c.Input)})
	a.stop()
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

// openAI writes answers of the chat completions API.
type openAI struct {
	eventStream
	request Request
	id      string
	content strings.Builder
	calls   []map[string]any
}

func openAIWriter(w http.ResponseWriter, q Request) writer {
	return &openAI{eventStream: eventStream{w}, request: q, id: "chatcmpl-" + newID()}
}

func (a *openAI) fail(status int, message string) {
	dontRetry(a.w)
	writeJSON(a.w, status, openAIFailure(status, message))
}

var errorCodePattern = regexp.MustCompile(`^\[(\w+)\] `)

// openAIFailure returns the error of OpenAI's APIs. Its code is in brackets before the message.
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

func (a *openAI) thought(s string) {
	if a.request.Stream {
		a.send("", a.chunk(map[string]any{"reasoning_content": s}, nil))
	}
}

func (a *openAI) text(s string) {
	if !a.request.Stream {
		a.content.WriteString(s)
		return
	}
	a.send("", a.chunk(map[string]any{"content": s}, nil))
}

func (a *openAI) call(c Call) {
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
