package definition

import (
	"fmt"
	"slices"

	"github.com/docker/cagent/pkg/config/latest"

	"fleet/internal/fleet"
)

// documentProgramSource describes the part of the definition that runs programs on this machine. It returns "" if there is none.
func (d *ParsedDefinition) documentProgramSource() string {
	for _, name := range d.Agents {
		a := d.Config.Agents[name]
		for _, t := range a.Toolsets {
			switch {
			case t.Type == "shell", t.Type == "script", t.Type == "lsp":
				return fmt.Sprintf("its agent %q has the toolset %s", name, t.Type)
			case t.Type == "mcp" && (t.Command != "" || t.Ref != ""):
				return fmt.Sprintf("its agent %q has an MCP server that is a program, %q", name, fleet.Shorten(t.Command+t.Ref, 60))
			case len(t.PostEdit) > 0:
				return fmt.Sprintf("its agent %q runs commands after edits", name)
			}
		}
		if !a.Hooks.IsEmpty() {
			return fmt.Sprintf("its agent %q has hooks, which run commands", name)
		}
	}
	return ""
}

// CheckPrograms returns an error if the definition runs programs on this machine.
func (d *ParsedDefinition) CheckPrograms() error {
	if what := d.documentProgramSource(); what != "" {
		return fmt.Errorf("%s: a server with tokens runs programs only with cagent.programs: true in fleet.yaml", what)
	}
	return nil
}

// machineAccess describes how the agent accesses this machine other than through its toolsets. It returns "" if it does not.
func machineAccess(a *latest.AgentConfig) string {
	switch {
	case !a.Hooks.IsEmpty():
		return "hooks, which run commands"
	case len(a.AddPromptFiles) > 0:
		return "prompt files of this machine"
	case a.Skills != nil && *a.Skills:
		return "the skills of this machine's user"
	case a.CodeModeTools:
		return "code mode (code_mode_tools)"
	case a.AddEnvironmentInfo:
		return "information about this machine (add_environment_info)"
	}
	return ""
}

// apiToolsets are the types of toolsets that use no files of this machine except the files that Fleet keeps for them. An MCP
// server may be a program, but programSource finds it, so mcp is in the list.
var apiToolsets = []string{"think", "todo", "memory", "fetch", "api", "a2a", "mcp"}

// usesMachine reports whether runs of the agent use files, programs or code on this machine.
func (d *ParsedDefinition) usesMachine(c *fleet.AgentConfig) bool {
	if d.programSource(c) != "" {
		return true
	}
	for _, name := range d.Agents {
		a := d.Config.Agents[name]
		if machineAccess(&a) != "" || slices.ContainsFunc(a.Toolsets, func(t latest.Toolset) bool { return !slices.Contains(apiToolsets, t.Type) }) {
			return true
		}
	}
	return false
}

// programSource describes the part of the definition or of the agent's configuration that runs programs on this machine. It
// returns "" if there is none.
func (d *ParsedDefinition) programSource(c *fleet.AgentConfig) string {
	if what := d.documentProgramSource(); what != "" {
		return what
	}
	for _, m := range c.MCPServers {
		if m.Command != "" {
			return fmt.Sprintf("its MCP server %q is a program", m.Name)
		}
	}
	for _, t := range c.Tools {
		if len(t.Command) > 0 || t.MCP != nil && t.MCP.Server.Command != "" {
			return fmt.Sprintf("its tool %q is a program", t.Name)
		}
	}
	return ""
}
