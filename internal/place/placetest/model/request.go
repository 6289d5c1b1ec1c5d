package model

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// Request is a parsed request, in the same form for all APIs.
type Request struct {
	API    string // Anthropic, OpenAI, Responses or Gemini
	Path   string
	Header http.Header
	Body   []byte // the body as it was received

	Model       string
	Stream      bool
	Temperature *float64
	System      string
	Messages    []Message
	Tools       []Tool

	namespaces []string // names of namespaces of tools; only Responses has them
}

// Message is one message of the conversation. Tool results are separate messages with the role "tool".
type Message struct {
	Role  string // user, assistant or tool
	Text  string
	Calls []Call // the tool calls of an assistant

	CallID  string // for a tool result: the id of the call
	IsError bool   // for a tool result: whether the tool failed, if the API has this field
}

// Call is a tool call.
type Call struct {
	ID, Name string
	Input    json.RawMessage
}

// Tool is a tool that the client offers.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// Key returns the API key of the request, or "" if it has none.
func (r Request) Key() string {
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		if k := r.Header.Get(name); k != "" {
			return k
		}
	}
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// ToolNames returns the names of the offered tools, in the client's order.
func (r Request) ToolNames() []string {
	names := make([]string, len(r.Tools))
	for i, t := range r.Tools {
		names[i] = t.Name
	}
	return names
}

// Results returns the tool results in the conversation, oldest first.
func (r Request) Results() []Message {
	return slices.DeleteFunc(slices.Clone(r.Messages), func(m Message) bool { return m.Role != "tool" })
}

// Transcript returns the conversation as text, with one line per message. Each line starts with the role.
func (r Request) Transcript() string {
	all := make([]string, len(r.Messages))
	for i, m := range r.Messages {
		all[i] = m.Role + ": " + m.Text
	}
	return strings.Join(all, "\n")
}

// problem returns why the server refuses the request, as the real APIs do, or "" if it accepts the request.
func (r Request) problem() string {
	if len(r.Messages) == 0 {
		return "messages: at least one is required"
	}
	open := map[string]bool{}
	for _, m := range r.Messages {
		switch {
		case m.Role == "tool" && !open[m.CallID]:
			return "messages: a result of a tool that was not called: " + m.CallID
		case m.Role == "tool":
			delete(open, m.CallID)
		case len(open) > 0:
			return "messages: a tool was called and its result is not in the next message"
		}
		for _, c := range m.Calls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return "messages: a tool was called and there is no result"
	}
	names := map[string]bool{}
	for _, t := range r.Tools {
		if t.Name == "" || names[t.Name] {
			return "tools: names must be unique, and are not: " + t.Name
		}
		names[t.Name] = true
	}
	return ""
}

// content is a text or a list of parts. A plain string is decoded as one part.
type content []part

type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   content         `json:"content"`
	IsError   bool            `json:"is_error"`
}

func (c *content) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*c = content{{Type: "text"}}
		return json.Unmarshal(data, &(*c)[0].Text)
	}
	return json.Unmarshal(data, (*[]part)(c))
}

func (c content) text() string {
	var all []string
	for _, p := range c {
		if p.Text != "" {
			all = append(all, p.Text)
		}
	}
	return strings.Join(all, "\n")
}
