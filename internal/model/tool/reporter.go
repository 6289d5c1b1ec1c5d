//go:build cgo

package tool

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/docker/cagent/pkg/tools"
)

// reporter is the toolset of the tool with which an agent reports its result and ends its task.
type reporter struct {
	tools.BaseToolSet
	uid    string // the agent's
	report func(summary string, payload []byte)
}

// NewReporter returns the toolset of the tool with which the agent with the uid reports its result. The tool calls report. The
// payload is nil if the agent gives none.
func NewReporter(uid string, report func(summary string, payload []byte)) tools.ToolSet {
	return &reporter{uid: uid, report: report}
}

// reportTool is the name of the reporter's tool.
const reportTool = "agent_complete"

// Instructions implements tools.ToolSet.
func (reporter) Instructions() string {
	return "When your task is done, call the tool " + reportTool + ". It ends your work at once: nobody reads what you write after the call."
}

// Tools implements tools.ToolSet.
func (r *reporter) Tools(context.Context) ([]tools.Tool, error) {
	return []tools.Tool{{
		Name:        reportTool,
		Description: "Reports that your task is done, with its result, and ends your work.",
		Parameters: map[string]any{
			"type": "object", "required": []string{"summary"},
			"properties": map[string]any{
				"summary": map[string]any{"type": "string", "description": "What was done and what came of it, in a few sentences."},
				"payload": map[string]any{"type": "string", "description": "The full result, if there is more than the summary."},
				"agent_id": map[string]any{
					"type": "string", "description": "Your own id. It may be left out.",
				},
			},
		},
		Handler: func(_ context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
			var in struct {
				Summary string          `json:"summary"`
				Payload json.RawMessage `json:"payload"`
				AgentID string          `json:"agent_id"`
			}
			err := json.Unmarshal([]byte(c.Function.Arguments), &in)
			switch {
			case err != nil:
				return tools.ResultError("The arguments do not match the tool's parameters: " + err.Error()), nil
			case strings.TrimSpace(in.Summary) == "":
				return tools.ResultError("summary is required: say what was done."), nil
			case in.AgentID != "" && in.AgentID != r.uid:
				return tools.ResultError("agent_id is not yours: your id is " + r.uid + "."), nil
			}
			r.report(in.Summary, decodePayload(in.Payload))
			return tools.ResultSuccess("Your report was received. Your work has ended."), nil
		},
	}}, nil
}

// decodePayload returns the text of a JSON string, nil for null, and any other JSON value unchanged.
func decodePayload(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	return raw
}
