package driver

import (
	"maps"
	"slices"

	"fleet/internal/runner/claude"
)

// MCPServer is a server with tools for the agent.
type MCPServer struct {
	Type    string            `json:"type,omitempty" yaml:"type"` // stdio, http or sse; empty means stdio
	Command string            `json:"command,omitempty" yaml:"command"`
	Args    []string          `json:"args,omitempty" yaml:"args"`
	Env     map[string]string `json:"env,omitempty" yaml:"env"`
	URL     string            `json:"url,omitempty" yaml:"url"`
	Headers map[string]string `json:"headers,omitempty" yaml:"headers"`
}

// AskServer is the name of the MCP server that an agent uses to ask people.
const AskServer = claude.AskServer

// askServerConfig returns the configuration with which an agent's program starts AskServer. It is for programs to which Fleet's client
// cannot serve the tools itself.
func askServerConfig(j Job) MCPServer {
	return MCPServer{Type: "stdio", Command: j.AskCommand[0], Args: append(slices.Clone(j.AskCommand[1:]), "mcp")}
}

// ReportServer is the name of the MCP server with which an agent reports to Fleet.
const ReportServer = "fleet"

// mcpServersOf returns the MCP servers of the run, without AskServer.
func mcpServersOf(j Job) map[string]MCPServer {
	servers := map[string]MCPServer{}
	maps.Copy(servers, j.Role.MCPServers)
	if j.Report != nil {
		servers[ReportServer] = MCPServer{
			Type: "http", URL: j.Report.URL, Headers: map[string]string{"Authorization": "Bearer " + j.Report.Token},
		}
	}
	return servers
}
