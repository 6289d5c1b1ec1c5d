package subagents

import (
	"encoding/json"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/schema"
)

// MainCaller is the name that definitions use for callers that are not agents: people and AI controllers.
const MainCaller = "main"

// These are the values of Definition.RunsIn.
const (
	runsInLocal = "local"
	runsInCoder = "coder"
)

// These are the values of Definition.OutputFormat.
const (
	outputText = "text"
	outputJSON = "json"
)

// Definition is a subagent as its file describes it. It is immutable.
type Definition struct {
	Name           string
	Description    string
	AllowedCallers []string      // the names of the callers that may run the subagent
	Subagents      []string      // the names of the subagents that it may run itself
	Session        bool          // whether all calls of one caller share a conversation
	Timeout        time.Duration // 0 means Settings.Timeout

	RunsIn        string // local or coder
	Remembers     bool   // whether its driver can continue a conversation
	Project, Role string // the project and role of a workspace; only in coder

	Driver      string
	Command     []string
	Model       string
	Allow, Deny []string // the tools that the agent may and may not use; if Allow is nil, the driver decides
	Ask         []string // the tools that people are asked about, see fleet.AgentConfig; nil means that nobody is asked
	MCPServers  []fleet.MCPServer
	PassEnv     []string // the variables of the server's environment that the agent gets; NAME* means all that begin with NAME

	OutputFormat   string
	Schema         json.RawMessage // JSON Schema of the result; nil accepts any result
	compiledSchema *schema.Schema  // nil if Schema is nil

	Body string // the body of the file, with the agent's memory

	Warnings []string // tell the author which parts of the file have no effect
}

// agentConfig returns the configuration of the definition's agent. It returns nil for an agent in a workspace, which the
// project of the workspace configures. depth is the number of agents above the agent. An agent that is too deep to run
// subagents gets a configuration without them.
func (d *Definition) agentConfig(depth, maxDepth int) *fleet.AgentConfig {
	if d.RunsIn != runsInLocal {
		return nil
	}
	c := &fleet.AgentConfig{
		Name: d.Name, Driver: d.Driver, Command: d.Command, Model: d.Model, SystemPrompt: d.systemPrompt(), ReplacesSystemPrompt: true,
		Allow: d.Allow, Deny: d.Deny, Ask: d.Ask, MCPServers: d.MCPServers, PassEnv: d.PassEnv, Depth: depth,
	}
	if depth+1 < maxDepth {
		c.Subagents = d.Subagents
	}
	return c
}

// systemPrompt returns Body, followed by the rules for the answer if it must be JSON.
func (d *Definition) systemPrompt() string {
	if d.OutputFormat != outputJSON {
		return d.Body
	}
	text := "Your answer is read by a program: it is one JSON value, with no text before or after it."
	if d.Schema != nil {
		text += " It satisfies this JSON Schema:\n\n" + string(d.Schema)
	}
	if d.Body == "" {
		return text
	}
	return d.Body + "\n\n" + text
}

// checkVariables returns an error that names a variable that the definition needs and lookup does not find; nil if none is
// missing.
func (d *Definition) checkVariables(lookup func(string) (string, bool)) error {
	for _, s := range d.MCPServers {
		for _, texts := range []map[string]string{s.Env, s.Headers} {
			for _, key := range sortedKeys(texts) {
				if _, err := fleet.Expand(texts[key], lookup); err != nil {
					return fleet.Errorf(fleet.ReasonDefinitionInvalid, "%s of the MCP server %q: %s", key, s.Name, fleet.PublicMessage(err))
				}
			}
		}
	}
	return nil
}

// allows reports whether the definition lets the caller run it.
func (d *Definition) allows(c caller) bool {
	if !c.isAgent && slices.Contains(d.AllowedCallers, MainCaller) {
		return true
	}
	return c.name != "" && c.name != MainCaller && slices.Contains(d.AllowedCallers, c.name)
}
