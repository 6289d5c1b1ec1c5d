package sessions

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// Content is something that an agent did in a turn. One of its parts is set.
type Content struct {
	Tool      string          // that it used, or that answered
	Status    string          // of the tool: started, completed or failed
	CallID    string          // of the tool
	Arguments json.RawMessage // of the tool, when it was used
	Result    *Result         // of the tool, when it answered
	Message   string          // what the agent said
	Usage     *fleet.Usage    // of one request to its model
	Warning   string          // what did not work, such as an MCP server that did not start
}

// Result is what a tool answered.
type Result struct {
	Text    string
	IsError bool
}

// step is the data of an output; see fleet.Output.
type step struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Arguments    json.RawMessage `json:"arguments"`
	Result       string          `json:"result"`
	IsError      bool            `json:"is_error"`
	Model        string          `json:"model"`
	InputTokens  int64           `json:"input_tokens"`
	OutputTokens int64           `json:"output_tokens"`
	Message      string          `json:"message"`
}

// contentOf is what the event tells of a turn; ok is false when it tells nothing of it.
func contentOf(e fleet.Event) (c Content, ok bool) {
	switch e.Type {
	case fleet.EventTaskOutput:
		return Content{Message: e.Text}, e.Text != ""
	case fleet.EventTaskStep:
	default:
		return Content{}, false
	}
	var s step
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &s) != nil {
		return Content{Tool: e.Text, Status: "started"}, e.Text != "" // a backend that knows no more than the words
	}
	switch s.Type {
	case "tool_call":
		return Content{Tool: s.Name, Status: "started", CallID: s.ID, Arguments: s.Arguments}, true
	case "tool_result":
		status := "completed"
		if s.IsError {
			status = "failed"
		}
		return Content{Tool: s.Name, Status: status, CallID: s.ID, Result: &Result{s.Result, s.IsError}}, true
	case "usage":
		return Content{Usage: &fleet.Usage{Model: s.Model, InputTokens: s.InputTokens, OutputTokens: s.OutputTokens}}, true
	case "warning":
		return Content{Warning: s.Message}, s.Message != ""
	}
	return Content{}, false
}
