package sessions

import (
	"context"
	"encoding/json"

	"fleet/internal/fleet"
)

// Content is something that an agent did in a turn. One of its parts is set.
type Content struct {
	Agent     string          // that did it
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
	Agent        string          `json:"agent"`
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
	if e.Type != fleet.EventTaskOutput && e.Type != fleet.EventTaskStep {
		return Content{}, false
	}
	var s step
	known := len(e.Data) > 0 && json.Unmarshal(e.Data, &s) == nil
	c.Agent = s.Agent
	switch {
	case e.Type == fleet.EventTaskOutput:
		c.Message = e.Text
		return c, e.Text != ""
	case !known: // the backend knows no more than the words
		c.Tool, c.Status = e.Text, "started"
		return c, e.Text != ""
	}
	switch s.Type {
	case "tool_call":
		c.Tool, c.Status, c.CallID, c.Arguments = s.Name, "started", s.ID, s.Arguments
	case "tool_result":
		c.Tool, c.Status, c.CallID, c.Result = s.Name, "completed", s.ID, &Result{s.Result, s.IsError}
		if s.IsError {
			c.Status = "failed"
		}
	case "usage":
		c.Usage = &fleet.Usage{Model: s.Model, InputTokens: s.InputTokens, OutputTokens: s.OutputTokens}
	case "warning":
		c.Warning = s.Message
		return c, s.Message != ""
	default:
		return Content{}, false
	}
	return c, true
}

// speaker is the name of the task's agent: what its definition calls it, or its own.
func (s *Service) speaker(ctx context.Context, t *fleet.Task) (name string, err error) {
	name = t.AgentName
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		a, err := tx.Agent(t.AgentUID)
		if a != nil && a.Recipe != nil && a.Recipe.Name != "" {
			name = a.Recipe.Name
		}
		return err
	})
	return name, err
}
