package model

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Responses is OpenAI's Responses API, which Codex uses.
const Responses = "responses"

// parseResponses parses a body of POST /v1/responses. It joins consecutive texts and calls of an assistant into one
// message.
func parseResponses(body []byte) (Request, error) {
	var in struct {
		Model        string          `json:"model"`
		Stream       bool            `json:"stream"`
		Temperature  *float64        `json:"temperature"`
		Instructions string          `json:"instructions"`
		Input        json.RawMessage `json:"input"`
		Tools        []responsesTool `json:"tools"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return Request{}, err
	}
	var items []responsesItem
	if text := ""; json.Unmarshal(in.Input, &text) == nil {
		items = []responsesItem{{Role: "user", Content: content{{Text: text}}}}
	} else if err := json.Unmarshal(in.Input, &items); err != nil {
		return Request{}, err
	}
	r := Request{API: Responses, Body: body, Model: in.Model, Stream: in.Stream, Temperature: in.Temperature}
	system := []string{in.Instructions}
	assistantMessage := func() *Message {
		if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "assistant" {
			return &r.Messages[n-1]
		}
		r.Messages = append(r.Messages, Message{Role: "assistant"})
		return &r.Messages[len(r.Messages)-1]
	}
	for _, item := range items {
		switch {
		case item.Type == "function_call":
			m := assistantMessage()
			m.Calls = append(m.Calls, Call{item.CallID, item.Name, json.RawMessage(item.Arguments)})
		case item.Type == "custom_tool_call":
			m := assistantMessage()
			m.Calls = append(m.Calls, Call{item.CallID, item.Name, item.Input})
		case strings.HasSuffix(item.Type, "_call_output"):
			r.Messages = append(r.Messages, Message{Role: "tool", Text: item.Output.text(), CallID: item.CallID})
		case item.Role == "system" || item.Role == "developer":
			system = append(system, item.Content.text())
		case item.Role == "assistant":
			m := assistantMessage()
			m.Text = strings.TrimPrefix(m.Text+"\n"+item.Content.text(), "\n")
		case item.Role == "user":
			r.Messages = append(r.Messages, Message{Role: "user", Text: item.Content.text()})
		}
	}
	r.System = strings.TrimSpace(strings.Join(system, "\n"))
	for _, t := range in.Tools {
		if t.Type == "namespace" {
			r.namespaces = append(r.namespaces, t.Name)
		}
		r.Tools = append(r.Tools, t.tools()...)
	}
	return r, nil
}

// responsesItem is an item of the input: a message, a call, or the result of a call.
type responsesItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   content         `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	Output    content         `json:"output"`
}

// responsesTool is a tool or a namespace of tools.
type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Tools       []responsesTool `json:"tools"` // the tools of a namespace
}

// tools returns the tool, or the tools of the namespace with names like NAMESPACE__NAME.
func (t responsesTool) tools() (all []Tool) {
	if t.Type != "namespace" {
		name := t.Name
		if name == "" {
			name = t.Type // a tool without a name, which the API runs itself
		}
		return []Tool{{name, t.Description, t.Parameters}}
	}
	for _, inner := range t.Tools {
		inner.Name = t.Name + "__" + inner.Name
		all = append(all, inner.tools()...)
	}
	return all
}

// responses writes answers of the Responses API.
type responses struct {
	eventStream
	request  Request
	id       string
	content  strings.Builder // text of the open text block
	textOpen bool            // a text block is open
	output   []any           // complete items
}

func newResponsesWriter(w http.ResponseWriter, q Request) writer {
	return &responses{eventStream: eventStream{w}, request: q, id: "resp_" + newID()}
}

func (a *responses) fail(status int, message string) {
	writeJSON(a.w, status, openAIFailure(status, message))
}

// emit sends an event with the name, if the answer is streamed.
func (a *responses) emit(name string, fields map[string]any) {
	if a.request.Stream {
		fields["type"] = name
		a.send(name, fields)
	}
}

// response returns the response object with the complete items so far.
func (a *responses) response(status string) map[string]any {
	output := a.output
	if output == nil {
		output = []any{}
	}
	return map[string]any{"id": a.id, "object": "response", "created_at": 1700000000, "model": a.request.Model, "status": status, "output": output}
}

func (a *responses) begin() {
	if a.request.Stream {
		a.open()
	}
	a.emit("response.created", map[string]any{"response": a.response("in_progress")})
}

// message returns the open text block as an item.
func (a *responses) message(status string) map[string]any {
	content := []any{}
	if a.content.Len() > 0 {
		content = append(content, map[string]any{"type": "output_text", "text": a.content.String(), "annotations": []any{}})
	}
	return map[string]any{"type": "message", "id": "msg_" + a.id, "role": "assistant", "status": status, "content": content}
}

func (a *responses) writeThought(s string) {
	part := map[string]any{"type": "summary_text", "text": s}
	item := map[string]any{"type": "reasoning", "id": "rs_" + a.id, "summary": []any{}}
	withPosition := func(fields map[string]any) map[string]any {
		fields["item_id"], fields["output_index"], fields["summary_index"] = item["id"], len(a.output), 0
		return fields
	}
	a.emit("response.output_item.added", map[string]any{"output_index": len(a.output), "item": item})
	a.emit("response.reasoning_summary_part.added", withPosition(map[string]any{"part": map[string]any{"type": "summary_text", "text": ""}}))
	a.emit("response.reasoning_summary_text.delta", withPosition(map[string]any{"delta": s}))
	a.emit("response.reasoning_summary_text.done", withPosition(map[string]any{"text": s}))
	a.emit("response.reasoning_summary_part.done", withPosition(map[string]any{"part": part}))
	a.addItem(map[string]any{"type": "reasoning", "id": item["id"], "summary": []any{part}})
}

func (a *responses) writeText(s string) {
	if !a.textOpen {
		a.textOpen = true
		a.emit("response.output_item.added", map[string]any{"output_index": len(a.output), "item": a.message("in_progress")})
	}
	a.content.WriteString(s)
	a.emit("response.output_text.delta", map[string]any{"output_index": len(a.output), "content_index": 0, "item_id": "msg_" + a.id, "delta": s})
}

// addItem adds a complete item to the answer.
func (a *responses) addItem(item map[string]any) {
	a.emit("response.output_item.done", map[string]any{"output_index": len(a.output), "item": item})
	a.output = append(a.output, item)
}

func (a *responses) closeText() {
	if a.textOpen {
		a.textOpen = false
		a.addItem(a.message("completed"))
		a.content.Reset()
	}
}

func (a *responses) writeCall(c Call) {
	a.closeText()
	item := map[string]any{"type": "function_call", "id": "fc_" + c.ID, "call_id": c.ID, "name": c.Name, "arguments": string(c.Input), "status": "completed"}
	if text := ""; json.Unmarshal(c.Input, &text) == nil { // a tool with free-form input
		item = map[string]any{"type": "custom_tool_call", "id": "ctc_" + c.ID, "call_id": c.ID, "name": c.Name, "input": text, "status": "completed"}
	}
	for _, n := range a.request.namespaces {
		if name, ok := strings.CutPrefix(c.Name, n+"__"); ok {
			item["namespace"], item["name"] = n, name
		}
	}
	a.emit("response.output_item.added", map[string]any{"output_index": len(a.output), "item": item})
	a.addItem(item)
}

func (a *responses) end(bool) {
	a.closeText()
	r := a.response("completed")
	r["usage"] = map[string]any{
		"input_tokens": InputTokens, "input_tokens_details": map[string]any{"cached_tokens": 0},
		"output_tokens": OutputTokens, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": InputTokens + OutputTokens,
	}
	if !a.request.Stream {
		writeJSON(a.w, http.StatusOK, r)
		return
	}
	a.emit("response.completed", map[string]any{"response": r})
}
