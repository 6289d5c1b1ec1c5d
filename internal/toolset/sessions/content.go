package sessions

import (
	"context"
	"encoding/json"

	"fleet/internal/fleet"
)

// Content is one thing that an agent did in a turn. It is a tool call (Tool, Status, CallID, Arguments), the result of
// a tool call (Tool, Status, CallID, Result), a Message, a Usage or a Warning. Agent is set in addition if it is known.
type Content struct {
	Agent     string          // the agent that did it
	Tool      string          // name of the tool, or the text of the step if the place reports only a text
	Status    string          // status of the tool call: started, completed or failed
	CallID    string          // identifies the tool call
	Arguments json.RawMessage // arguments of the tool call
	Result    *Result         // what the tool returned
	Message   string          // text that the agent wrote
	Usage     *fleet.Usage    // usage of one request to the model
	Warning   string          // what did not work, for example an MCP server that did not start
}

// Result is the result of a tool.
type Result struct {
	Text    string
	IsError bool
}

// step has the fields of every JSON object that fleet.Output.Data can contain.
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

// contentOf converts an event of a turn to a Content. ok is false if the event does not show something that the agent
// did.
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
	case !known: // the place reports only the text
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

// speaker returns the name to show for the task's agent: the name in the agent's definition, or else the agent's name.
func (s *Service) speaker(ctx context.Context, t *fleet.Task) (string, error) {
	a, err := s.core.AgentByUID(ctx, t.AgentUID)
	switch {
	case err != nil && fleet.ReasonOf(err) != fleet.ReasonAgentNotFound:
		return "", err
	case err == nil && a.Config != nil && a.Config.Name != "":
		return a.Config.Name, nil
	}
	return t.AgentName, nil
}
