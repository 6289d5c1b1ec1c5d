package fleet

import (
	"encoding/json"
	"time"
)

// Tool is a tool that agents can call. One of HTTP, MCP and Command is set, and does the work.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of its arguments, an object
	HTTP        *HTTPTool       `json:"http,omitempty"`
	MCP         *MCPTool        `json:"mcp,omitempty"`
	Command     []string        `json:"command,omitempty"` // gets the arguments as JSON on its standard input
}

// RegisteredTool is a tool that its owner has registered for agents.
type RegisteredTool struct {
	Tool
	Owner     string
	Agent     string // name of the agent that gets it; empty: every agent gets it
	CreatedAt time.Time
	UpdatedAt time.Time
}

// HTTPTool is an endpoint that takes the arguments as a JSON body and answers with the result.
type HTTPTool struct {
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"` // empty: POST
	Headers map[string]string `json:"headers,omitempty"`
}

// MCPTool is a tool of an MCP server.
type MCPTool struct {
	Server MCPServer `json:"server"`
	Tool   string    `json:"tool,omitempty"` // empty: the same name as Tool.Name
}
