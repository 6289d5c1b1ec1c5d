package fleet

import (
	"encoding/json"
	"time"
)

// AgentConfig says how an agent is made that no project of its backend describes: what its definition says, or the toolset
// that makes it. It is kept with the agent, so that the agent stays as it was made when its definition changes. It names
// secrets and never holds them: "${NAME}" in an MCP server's environment or headers is put in by the backend when the
// agent is given a run, from the server's environment.
type AgentConfig struct {
	// Name is what its definition calls the agent.
	Name string `json:"name,omitempty"`
	// Driver is what runs the agent, one of the place's Traits.Drivers; empty: the agent's project says it, and the
	// configuration adds no more than Reports.
	Driver string `json:"driver,omitempty"`
	// Command is the program and its arguments, for a driver that needs them. See the backend for what is put in.
	Command []string `json:"command,omitempty"`
	// Document is a whole definition in the driver's own format, for one that takes it.
	Document string `json:"document,omitempty"`
	// Agent is which agent of the document is meant; empty: its root.
	Agent string `json:"agent,omitempty"`
	// Model is the model's name as the driver knows it; empty: the driver's default.
	Model string `json:"model,omitempty"`
	// System is added to what the driver tells the model about itself.
	System string `json:"system,omitempty"`
	// SystemOnly says that System is all that the model is told about itself, where the driver can leave its own words out.
	SystemOnly bool `json:"system_only,omitempty"`
	// Allow and Deny are the tools the agent may and may not use without asking, in the driver's own notation. Unless it may
	// ask, what is not allowed is denied. A nil Allow leaves it to the driver.
	Allow []string `json:"allow"`
	Deny  []string `json:"deny,omitempty"`
	// Ask says that the agent asks for what is neither allowed nor denied, and may ask questions; nil: it asks nobody. Ask
	// names tools that it has besides those of Allow. AskTimeout is how long a question waits; 0: the place's default.
	Ask        []string      `json:"ask"`
	AskTimeout time.Duration `json:"ask_timeout,omitempty"`
	// MCPServers are the agent's own MCP servers; it has no others.
	MCPServers []MCPServer `json:"mcp_servers,omitempty"`
	// Tools are tools of Fleet's registry that the agent can call.
	Tools []Tool `json:"tools,omitempty"`
	// Inside names hosts on the server's own networks that the Tools may call. They may call public addresses anyway.
	Inside []string `json:"inside,omitempty"`
	// Foreign says that the Document is not the operator's: what is in it reaches public addresses only.
	Foreign bool `json:"foreign,omitempty"`
	// Dir is the directory the agent works in, on the backend's machine; empty: one of its own.
	Dir string `json:"dir,omitempty"`
	// Place is the place whose project, Agent.Project, the agent works in: it makes a working copy of it. Empty: Dir.
	Place string `json:"place,omitempty"`
	// PassEnv names the variables of the server's environment that the agent gets, besides what its backend gives to all.
	PassEnv []string `json:"pass_env,omitempty"`
	// Edits says that the agent may change files in the directory that it works in without asking, where its role does not
	// say what it may do. Allow, when it is set, says all.
	Edits bool `json:"edits,omitempty"`
	// Keep is how long the backend keeps the files of an agent without a repository after the agent was deleted; 0: not at
	// all. Only a backend with Traits.Keeps does.
	Keep time.Duration `json:"keep,omitempty"`
	// Reports says that the agent ends its task by the tool agent_complete. A backend whose agents are
	// models of Fleet's own gives it to them and ends the run with what it was called with; others get Run.Report for it.
	Reports bool `json:"reports,omitempty"`
	// Calls are the names of other subagents that the agent may run, and Depth how many agents stand above it.
	Calls []string `json:"calls,omitempty"`
	Depth int      `json:"depth,omitempty"`
}

// MCPServer is an MCP server of an agent's own: a program that is started, or a URL.
type MCPServer struct {
	Name    string            `json:"name"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Tool is a tool that agents can call, with what does the work. One of HTTP, MCP and Command is set.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"` // JSON Schema of its arguments, an object
	HTTP        *HTTPTool       `json:"http,omitempty"`
	MCP         *MCPTool        `json:"mcp,omitempty"`
	Command     []string        `json:"command,omitempty"` // gets the arguments as JSON on its standard input
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
	Tool   string    `json:"tool,omitempty"` // empty: the same name
}

// Report is how an agent outside this process reaches Fleet: the address of an MCP endpoint and a token that is good for
// the agent itself alone, as long as its task runs. The token is a secret: it goes into a file that only the agent can
// read.
type Report struct {
	URL   string
	Token string
}
