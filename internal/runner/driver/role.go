package driver

import (
	"cmp"
	"slices"
	"time"

	"fleet/internal/runner/question"
)

// Role is the part of an agent's role that concerns its driver.
type Role struct {
	Name            string
	Prompt          string
	Model           string
	Tools           []string // available tools; nil means the program's default
	AllowedTools    []string // tools that need no permission
	DisallowedTools []string
	PermissionMode  string // a value that the program defines (see ModesDriver); empty means the program's default
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

// denyRules returns the rules for calls that the program must deny by itself. The program does not ask about calls that the
// settings of its directory allow, and the agent can write these settings.
func denyRules(r Role) []string {
	if r.Permissions == nil {
		return r.DisallowedTools
	}
	return slices.Concat(r.DisallowedTools, r.Permissions.Deny)
}

// allowedTools returns the tools that need no permission.
func allowedTools(j Job) []string {
	tools := slices.Clone(j.Role.AllowedTools)
	if j.Report != nil {
		tools = append(tools, "mcp__"+ReportServer)
	}
	if len(j.AskCommand) > 0 {
		tools = append(tools, "mcp__"+AskServer+"__"+question.ToolAskUser)
	}
	return tools
}
