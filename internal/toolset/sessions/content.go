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

// contentOf converts an event of a turn to a Content. ok is false if the event does not show something that the agent
// did.
func contentOf(e fleet.Event) (c Content, ok bool) {
	s := fleet.ParseStep(e.Data)
	if s != nil {
		c.Agent = s.Agent
	}
	switch {
	case e.Type == fleet.EventTaskOutput:
		c.Message = e.Text
		return c, e.Text != ""
	case e.Type != fleet.EventTaskStep && e.Type != fleet.EventTaskDetail:
		return Content{}, false
	case s == nil: // the place reports only the text
		c.Tool, c.Status = e.Text, "started"
		return c, e.Text != ""
	}
	switch s.Type {
	case fleet.StepToolCall:
		c.Tool, c.Status, c.CallID, c.Arguments = s.Name, "started", s.ID, s.Arguments
	case fleet.StepToolResult:
		c.Tool, c.Status, c.CallID, c.Result = s.Name, "completed", s.ID, &Result{s.Result, s.IsError}
		if s.IsError {
			c.Status = "failed"
		}
	case fleet.StepUsage:
		if s.Usage == nil {
			return Content{}, false
		}
		c.Usage = &fleet.Usage{Model: s.Usage.Model, InputTokens: s.Usage.AllInput(), OutputTokens: s.Usage.Output}
	case fleet.StepWarning:
		c.Warning = s.Message
		return c, s.Message != ""
	case fleet.StepDenied, fleet.StepLimit, fleet.StepRetry, fleet.StepCompaction:
		c.Warning = e.Text
	default:
		return Content{}, false
	}
	return c, true
}

// speakerName returns the name to show for the task's agent: the name in the agent's definition, or else the agent's name.
func (s *Service) speakerName(ctx context.Context, t *fleet.Task) (string, error) {
	a, err := s.core.AgentByUID(ctx, t.AgentUID)
	switch {
	case err != nil && fleet.ReasonOf(err) != fleet.ReasonAgentNotFound:
		return "", err
	case err == nil && a.Config != nil && a.Config.Name != "":
		return a.Config.Name, nil
	}
	return t.AgentName, nil
}
