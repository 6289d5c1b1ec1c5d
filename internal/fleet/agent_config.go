package fleet

import "time"

// AgentConfig configures an agent in addition to its project, or without a project. It comes from the agent's definition, or
// from the toolset that creates the agent. It is stored with the agent, so a later change of the definition does not change
// the agent. It names secrets and never contains them: when a run starts, the place replaces "${NAME}" in an MCP server's
// environment or headers with the value from the Fleet server's environment.
type AgentConfig struct {
	// Name is the agent's name in its definition.
	Name string `json:"name,omitempty"`
	// Driver names one of the place's Traits.Drivers, which runs the agent. If it is empty, the driver is that of the agent's
	// project, and only Reports, MayEdit and KeepFilesFor have an effect.
	Driver string `json:"driver,omitempty"`
	// Command is the program and its arguments. For a driver with Driver.AddsArguments, it is only additional arguments. The
	// place replaces actions such as "{{.Model}}" in it. If it is empty, the driver starts its own program.
	Command []string `json:"command,omitempty"`
	// Document is a whole definition in the driver's own format, for a driver that needs one.
	Document string `json:"document,omitempty"`
	// Agent names the agent of the document; empty: its root.
	Agent string `json:"agent,omitempty"`
	// Model is the model's name as the driver knows it; empty: the driver's default.
	Model string `json:"model,omitempty"`
	// SystemPrompt is appended to the driver's system prompt.
	SystemPrompt string `json:"system,omitempty"`
	// ReplacesSystemPrompt means that SystemPrompt replaces the driver's system prompt, if the driver supports that.
	ReplacesSystemPrompt bool `json:"system_only,omitempty"`
	// Allow and Deny are the tools that the agent may and may not use without asking, in the driver's own notation. If Ask is
	// nil, tools that are not allowed are denied. If Allow is nil, the driver decides.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Ask names tools that the agent has in addition to those of Allow. If Ask is not nil, the agent asks before it uses a tool
	// that is neither allowed nor denied, and may ask questions. AskTimeout is how long a question waits; 0: the place's default.
	Ask        []string      `json:"ask"`
	AskTimeout time.Duration `json:"ask_timeout,omitempty"`
	// MCPServers are the agent's own MCP servers; it has no others.
	MCPServers []MCPServer `json:"mcp_servers,omitempty"`
	// Tools are tools of Fleet's registry that the agent can call.
	Tools []Tool `json:"tools,omitempty"`
	// PrivateHosts names hosts on the server's own networks that the Tools may call. They may call public addresses anyway.
	PrivateHosts []string `json:"inside,omitempty"`
	// UntrustedDocument means that the Document does not come from the operator. It can then use public addresses only.
	UntrustedDocument bool `json:"foreign,omitempty"`
	// Dir is the directory in which the agent works, on the place's machine; empty: the agent has its own directory.
	Dir string `json:"dir,omitempty"`
	// Place is the place that has the project Agent.Project. The agent works in a working copy of the project. If Place is
	// empty, the agent works in Dir.
	Place string `json:"place,omitempty"`
	// PassEnv names the variables of the server's environment that the agent gets, in addition to those that its place
	// gives to all agents.
	PassEnv []string `json:"pass_env,omitempty"`
	// MayEdit means that the agent may change files in its working directory without asking, unless its role or Allow sets its
	// permissions.
	MayEdit bool `json:"edits,omitempty"`
	// KeepFilesFor is how long the place keeps the files of an agent without a repository after the agent was deleted; 0: it does not
	// keep them. Only a place with Traits.KeepsFiles keeps files.
	KeepFilesFor time.Duration `json:"keep,omitempty"`
	// Reports means that the agent ends its task with the tool agent_complete. A place that runs models itself provides the
	// tool, and ends the run with the tool's arguments. Other places get Run.FleetEndpoint.
	Reports bool `json:"reports,omitempty"`
	// Subagents are the names of other subagents that the agent may run. Depth is the number of agents above it: 0 if no agent
	// runs it.
	Subagents []string `json:"calls,omitempty"`
	Depth     int      `json:"depth,omitempty"`
}

// MCPServer is an MCP server of one agent: a program that is started, or a URL.
type MCPServer struct {
	Name    string            `json:"name"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}
