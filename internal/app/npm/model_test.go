package npm

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// model is a stub of the model's API on a loopback port. The prompts contain the answers of the model; see step.
type model struct {
	url          string
	subscription *subscription // nil if the model is used with a key

	mu         sync.Mutex
	requests   []request
	gates      map[string]*gate
	failedOnce map[string]bool // texts of the "later" steps whose first request has failed
}

// gate is a point where an answer waits until the test opens it or the client goes away.
type gate struct {
	arrived, open, left chan struct{}
	arrive, leave       func() // close arrived and left; further calls do nothing
}

func newGate() *gate {
	g := &gate{arrived: make(chan struct{}), open: make(chan struct{}), left: make(chan struct{})}
	g.arrive = sync.OnceFunc(func() { close(g.arrived) })
	g.leave = sync.OnceFunc(func() { close(g.left) })
	return g
}

// request is a call of POST /v1/messages.
type request struct {
	Header   http.Header `json:"-"`
	at       time.Time   // when it arrived
	Model    string      `json:"model"`
	Stream   bool        `json:"stream"`
	System   blocks      `json:"system"`
	Messages []message   `json:"messages"`
	Tools    []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Output struct {
		Effort string `json:"effort"`
	} `json:"output_config"`
}

type message struct {
	Role    string `json:"role"`
	Content blocks `json:"content"`
}

// blocks are the parts of a system prompt, a message or a tool result. A plain string is decoded as one text block.
type blocks []block

type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`    // the name of the tool that a tool_use block calls
	Input   json.RawMessage `json:"input"`   // the arguments of that call
	Content blocks          `json:"content"` // the content of a tool_result
	IsError bool            `json:"is_error"`
}

func (b *blocks) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*b = blocks{{Type: "text"}}
		return json.Unmarshal(data, &(*b)[0].Text)
	}
	return json.Unmarshal(data, (*[]block)(b))
}

// text returns the texts of all blocks, tool results included, one a line.
func (b blocks) text() string {
	var all []string
	for _, x := range b {
		all = append(all, x.Text, x.Content.text())
	}
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "\n")
}

// results returns the tool results in the conversation, oldest first.
func (r request) results() (all []block) {
	for _, m := range r.Messages {
		for _, b := range m.Content {
			if b.Type == "tool_result" {
				all = append(all, b)
			}
		}
	}
	return all
}

// conversationText returns the messages of the conversation, each after its role and a colon.
func (r request) conversationText() string {
	var all []string
	for _, m := range r.Messages {
		all = append(all, m.Role+": "+m.Content.text())
	}
	return strings.Join(all, "\n")
}

// calledTools returns the names of the tools that the model has called in the conversation, oldest first.
func (r request) calledTools() (names []string) {
	for _, m := range r.Messages {
		for _, b := range m.Content {
			if b.Type == "tool_use" {
				names = append(names, b.Name)
			}
		}
	}
	return names
}

func (r request) toolNames() (names []string) {
	for _, t := range r.Tools {
		names = append(names, t.Name)
	}
	return names
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{gates: map[string]*gate{}, failedOnce: map[string]bool{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
			http.NotFound(w, r)
			return
		}
		q := request{Header: r.Header, at: time.Now()}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Errorf("the model received an invalid request: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.answer(w, r, q)
	}))
	t.Cleanup(s.Close)
	m.url = s.URL
	return m
}

// env returns variables that make Claude Code use only this model.
func (m *model) env() map[string]string {
	env := map[string]string{
		"ANTHROPIC_BASE_URL": m.url, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_ERROR_REPORTING": "1",
	}
	if m.subscription != nil {
		env["CLAUDE_CODE_OAUTH_TOKEN"] = subscriptionToken
	} else {
		env["ANTHROPIC_API_KEY"] = "sk-stub"
	}
	return env
}

// environ returns the variables of env in the form of os.Environ.
func (m *model) environ() (environ []string) {
	for name, value := range m.env() {
		environ = append(environ, name+"="+value)
	}
	return environ
}

// gate returns the gate with the name. The first call with a name makes the gate.
func (m *model) gate(name string) *gate {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gates[name] == nil {
		m.gates[name] = newGate()
	}
	return m.gates[name]
}

// requestsWith returns the requests whose latest script contains the text, oldest first. See request.prompt.
func (m *model) requestsWith(text string) (found []request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.requests {
		if prompt, _ := q.prompt(); strings.Contains(prompt, text) {
			found = append(found, q)
		}
	}
	return found
}

// answer records the request and responds with the next step of its script.
func (m *model) answer(w http.ResponseWriter, r *http.Request, q request) {
	m.mu.Lock()
	m.requests = append(m.requests, q)
	m.mu.Unlock()
	s := q.nextStep()
	if m.subscription != nil && !m.subscription.admit(w, q, s) {
		return
	}
	switch s.verb {
	case "say", "limit", "extra":
		stream(w, q.Model, map[string]any{"type": "text", "text": s.text})
	case "tool":
		stream(w, q.Model, map[string]any{"type": "text", "text": "Now " + s.tool}, map[string]any{"type": "tool_use", "name": s.tool, "input": s.input})
	case "tools":
		var calls []struct {
			Name  string          `json:"name"`
			Input json.RawMessage `json:"input"`
		}
		_ = json.Unmarshal([]byte(s.text), &calls) // if the script of a test is invalid, the answer has no calls
		content := []map[string]any{{"type": "text", "text": "Now several tools"}}
		for _, c := range calls {
			content = append(content, map[string]any{"type": "tool_use", "name": c.Name, "input": c.Input})
		}
		stream(w, q.Model, content...)
	case "think":
		stream(w, q.Model, map[string]any{"type": "thinking", "thinking": s.text},
			map[string]any{"type": "tool_use", "name": "Bash", "input": map[string]any{"command": "echo thought"}})
	case "later":
		m.mu.Lock()
		first := !m.failedOnce[s.text]
		m.failedOnce[s.text] = true
		m.mu.Unlock()
		if !first {
			stream(w, q.Model, map[string]any{"type": "text", "text": s.text})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(529)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)
	case "hang":
		g := m.gate(s.text)
		g.arrive()
		select {
		case <-g.open:
			stream(w, q.Model, map[string]any{"type": "text", "text": "Went on"})
		case <-r.Context().Done():
			g.leave()
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": s.text}})
	}
}

// usage is the format of the token usage in an answer. Its argument is the number of output tokens.
const usage = `{"input_tokens":1000,"output_tokens":%d}`

// stream writes an answer with these blocks as server-sent events.
func stream(w http.ResponseWriter, model string, content ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind string, fields map[string]any) {
		fields["type"] = kind
		b, _ := json.Marshal(fields) // the fields are always valid JSON
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
		w.(http.Flusher).Flush()
	}
	// Ids must be unique. Claude Code merges messages with equal ids, so the next request would lack an answer, and the
	// script would repeat a step. Ids made from memory addresses are sometimes equal, because memory is reused.
	id := rand.Text()
	send("message_start", map[string]any{"message": map[string]any{
		"id": "msg_" + id, "type": "message", "role": "assistant", "model": model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": json.RawMessage(fmt.Sprintf(usage, 1)),
	}})
	stop := "end_turn"
	for i, b := range content {
		delta := map[string]any{"type": "text_delta", "text": b["text"]}
		start := map[string]any{"type": "text", "text": ""}
		if b["type"] == "thinking" {
			delta = map[string]any{"type": "thinking_delta", "thinking": b["thinking"]}
			start = map[string]any{"type": "thinking", "thinking": "", "signature": ""}
		}
		if b["type"] == "tool_use" {
			stop = "tool_use"
			input, _ := json.Marshal(b["input"]) // it was decoded from JSON
			delta = map[string]any{"type": "input_json_delta", "partial_json": string(input)}
			start = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%s_%d", id, i), "name": b["name"], "input": map[string]any{}}
		}
		send("content_block_start", map[string]any{"index": i, "content_block": start})
		send("content_block_delta", map[string]any{"index": i, "delta": delta})
		if b["type"] == "thinking" {
			send("content_block_delta", map[string]any{"index": i, "delta": map[string]any{"type": "signature_delta", "signature": "c2ln"}})
		}
		send("content_block_stop", map[string]any{"index": i})
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": json.RawMessage(fmt.Sprintf(usage, 500))})
	send("message_stop", map[string]any{})
}
