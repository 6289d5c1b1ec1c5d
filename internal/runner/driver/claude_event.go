package driver

import (
	"encoding/json"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// claudeEvent is a line of output: an event of Claude Code, or of Fleet's client in package claude.
type claudeEvent struct {
	Type      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	SessionID string  `json:"session_id"`
	Parent    *string `json:"parent_tool_use_id"` // set for events of a subagent
	Subagent  string  `json:"subagent_type"`
	IsError   bool    `json:"is_error"`
	Result    string  `json:"result"`
	// Output is the object in a result. It is missing if the run has no schema, or if the model returned no object.
	Output json.RawMessage `json:"structured_output"`
	Errors []string        `json:"errors"`
	Cost   float64         `json:"total_cost_usd"`
	Turns  int             `json:"num_turns"`
	// UsageByModel is the usage since the last result. If a version of Claude Code reports it, Cost is the cost of the
	// whole conversation. In older versions, Cost is the cost of the run.
	UsageByModel map[string]struct {
		Cost float64 `json:"costUSD"`
		claudeTokens
	} `json:"model_usage_since_last_result"`
	Usage *messageTokens `json:"usage"` // in a result: the usage since the last result
	Final bool           `json:"final"` // in Fleet's event usage: the message is complete
	// The following fields are set in Fleet's event tool_time, which precedes the result of a tool call.
	ToolUseID    string `json:"tool_use_id"`
	Milliseconds int64  `json:"ms"`
	APIError     string `json:"error"` // in a message: the error of the model's API, if the message reports one
	// The following fields of a result explain a failure.
	APIStatus      int    `json:"api_error_status"`
	StopReason     string `json:"stop_reason"`
	TerminalReason string `json:"terminal_reason"`
	Denials        []struct {
		ID   string `json:"tool_use_id"`
		Name string `json:"tool_name"`
	} `json:"permission_denials"` // in a result: the tool calls that were denied
	// The following fields are set in an event with the result of one tool call.
	ToolResult json.RawMessage `json:"tool_use_result"` // a text if the call failed
	ToolMeta   []struct {
		ID   string `json:"id"`
		Kind string `json:"non_execution_kind"` // set if the call was not executed
	} `json:"tool_result_meta"`
	Model   string         `json:"model"` // in the first event
	Version string         `json:"claude_code_version"`
	Servers []claudeServer `json:"mcp_servers"` // in the first event
	Message claudeMessage  `json:"message"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"`
	Usage   *messageTokens  `json:"usage"`
}

// requestUsage returns the message's usage. m.Usage must not be nil.
func (m *claudeMessage) requestUsage() fleet.RequestUsage {
	u := m.Usage
	return fleet.RequestUsage{Model: oneLine(m.Model), Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output}
}

// claudeServer is an MCP server, with its status at the start: connected, pending, failed or needs-auth.
type claudeServer struct {
	Name   string `json:"name"`
	Status string `json:"status"`
}

// serverWarnings returns a warning for each MCP server whose tools are missing.
func serverWarnings(servers []claudeServer) (pieces []Piece) {
	for _, s := range servers {
		switch s.Status {
		case "failed":
			pieces = append(pieces, warningStep(fmt.Sprintf("the MCP server %q did not start, so its tools are missing", s.Name)))
		case "needs-auth":
			pieces = append(pieces, warningStep(fmt.Sprintf("the MCP server %q requires a login, so its tools are missing", s.Name)))
		}
	}
	return pieces
}

// claudeBlock is a block in the content of a message.
type claudeBlock struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`

	// The following fields are set in a tool_result.
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
}

// withSubagent returns the piece with the subagent to which the event belongs, if any.
func (e *claudeEvent) withSubagent(p Piece) Piece {
	if e.Parent != nil {
		p.Data.Parent, p.Data.Agent = *e.Parent, oneLine(e.Subagent)
	}
	return p
}

// failed reports whether the result reports a failure.
func (e *claudeEvent) failed() bool { return e.IsError || strings.HasPrefix(e.Subtype, "error") }
