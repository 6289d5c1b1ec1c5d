package driver

import (
	"cmp"
	"slices"
	"time"

	"fleet/internal/runner/claude"
)

// Role is the part of an agent's role that concerns its driver.
type Role struct {
	Name            string
	Prompt          string
	Model           string
	Tools           []string // available tools; nil means the program's default
	AllowedTools    []string // tools that need no permission
	DisallowedTools []string
	PermissionMode  string
	MCPServers      map[string]MCPServer
	Permissions     *Permissions // if nil, the agent cannot ask, and tools that need a permission are denied
	RoleOptions

	// Trust says whether Claude Code follows permissions.allow in the settings of the agent's repository. If it is nil, Fleet
	// leaves that to the program.
	Trust *bool
	// Sealed makes Claude Code ignore settings files in the agent's working directory.
	Sealed bool
	// ReplacesSystemPrompt means that the role and the specification replace the program's own system prompt. Otherwise they extend
	// that prompt.
	ReplacesSystemPrompt bool
}

// Permissions are rules for tool calls that need a permission. Deny is checked first, then Ask, then Allow, and the
// first list with a matching rule decides. If no rule matches, Fleet asks people. An agent with permissions can also
// ask questions.
type Permissions struct {
	Allow   []string      `yaml:"allow" json:"allow,omitempty"`     // rules for calls that Fleet allows
	Deny    []string      `yaml:"deny" json:"deny,omitempty"`       // rules for calls that Fleet denies
	Ask     []string      `yaml:"ask" json:"ask,omitempty"`         // rules for calls that people decide about
	Timeout time.Duration `yaml:"timeout" json:"timeout,omitempty"` // how long a question waits for its answer; 0 means DefaultAskTimeout
}

// DefaultAskTimeout is the default of Permissions.Timeout.
const DefaultAskTimeout = time.Hour

// QuestionTimeout returns how long a question waits for its answer.
func (p *Permissions) QuestionTimeout() time.Duration { return cmp.Or(p.Timeout, DefaultAskTimeout) }

// AskServer is the name of the MCP server that an agent uses to ask people.
const AskServer = claude.AskServer

// askServer returns the MCP server AskServer as a program of its own.
func askServer(j Job) MCPServer {
	return MCPServer{Type: "stdio", Command: j.Ask[0], Args: append(slices.Clone(j.Ask[1:]), "mcp")}
}

// MCPServer is a server with tools for the agent.
type MCPServer struct {
	Type    string            `json:"type,omitempty" yaml:"type"` // stdio, http or sse; empty means stdio
	Command string            `json:"command,omitempty" yaml:"command"`
	Args    []string          `json:"args,omitempty" yaml:"args"`
	Env     map[string]string `json:"env,omitempty" yaml:"env"`
	URL     string            `json:"url,omitempty" yaml:"url"`
	Headers map[string]string `json:"headers,omitempty" yaml:"headers"`
}
