package subagents

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"fleet/internal/fleet"
)

// Main is what definitions call a caller that is not an agent: a person or an AI controller.
const Main = "main"

// Where subagents run, as definitions call it, which is the name of the core's backend too.
const (
	inLocal = "local"
	inCoder = "coder"
)

// The formats of results.
const (
	outputText = "text"
	outputJSON = "json"
)

// Definition is a subagent, as its file describes it. It is never changed.
type Definition struct {
	Name        string
	Description string
	// AllowedCallers are who may run it, and Calls whom it may run itself.
	AllowedCallers []string
	Calls          []string
	Session        bool          // it remembers the calls before, of the same caller
	Timeout        time.Duration // 0: the server's own limit

	RunsIn        string // the backend
	Project, Role string // in a workspace: how that is made

	Driver      string
	Command     []string
	Model       string
	Allow, Deny []string // a nil Allow leaves it to the driver
	MCPServers  []fleet.MCPServer
	PassEnv     []string

	OutputFormat string
	Schema       json.RawMessage // of the result; nil: any
	schema       *jsonschema.Schema

	System string // the body, with what the agent remembers

	Warnings []string // what in its file has no effect, for its author
}

// recipe is how an agent of the definition is made, at the depth below a caller that is no agent. Where it would stand
// too deep to run others it cannot see that it might.
func (d *Definition) recipe(depth, maxDepth int) *fleet.Recipe {
	if d.RunsIn != inLocal {
		return nil // its workspace's project says it all
	}
	r := &fleet.Recipe{
		Name: d.Name, Driver: d.Driver, Command: d.Command, Model: d.Model, System: d.instructions(), SystemOnly: true,
		Allow: d.Allow, Deny: d.Deny, MCPServers: d.MCPServers, PassEnv: d.PassEnv, Depth: depth,
	}
	if depth+1 < maxDepth {
		r.Calls = d.Calls
	}
	return r
}

// instructions are the system prompt of the agent.
func (d *Definition) instructions() string {
	if d.OutputFormat != outputJSON {
		return d.System
	}
	text := "Your answer is read by a program: it is one JSON value, with no text before or after it."
	if d.Schema != nil {
		text += " It satisfies this JSON Schema:\n\n" + string(d.Schema)
	}
	if d.System == "" {
		return text
	}
	return d.System + "\n\n" + text
}

// remembers says whether an agent of the definition knows in its next task what it did in the one before.
func (d *Definition) remembers() bool { return d.RunsIn != inLocal || d.Driver == "claude" }

// missing says which variable of the environment the definition needs and lookup does not know.
func (d *Definition) missing(lookup func(string) (string, bool)) error {
	for _, s := range d.MCPServers {
		for _, texts := range []map[string]string{s.Env, s.Headers} {
			for _, key := range sortedKeys(texts) {
				if _, err := fleet.Expand(texts[key], lookup); err != nil {
					return fleet.Errorf(fleet.ReasonDefinitionInvalid, "%s of the MCP server %q: %s", key, s.Name, fleet.Words(err))
				}
			}
		}
	}
	return nil
}

// allows says whether the definition itself lets the caller run it.
func (d *Definition) allows(c caller) bool {
	if !c.agent && slices.Contains(d.AllowedCallers, Main) {
		return true
	}
	return c.name != "" && c.name != Main && slices.Contains(d.AllowedCallers, c.name)
}
