package definition

import (
	"maps"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
)

// skillDirs are the directories in a user's home in which the library looks for skills.
var skillDirs = []string{".claude/skills", ".codex/skills"}

// Needs returns what a run of the agent with the configuration needs. s are the server's settings. lookup finds the
// server's environment variables. models are models that the run may use in addition to those of the definition.
func Needs(c *fleet.AgentConfig, s driver.ModelSettings, lookup func(string) (string, bool), models ...string) (driver.ModelNeeds, error) {
	d, err := FromConfig(c)
	if err != nil {
		return driver.ModelNeeds{}, err
	}
	n := driver.ModelNeeds{
		ProgramSource: d.programSource(c), Programs: d.programs(c), UsesMachine: d.usesMachine(c), Models: slices.Collect(maps.Keys(d.Config.Models)),
		Variables: d.variables(c, s.ToolEnv, lookup, append(models, c.Model, s.Model)...),
	}
	for i, name := range d.Agents {
		a := d.Config.Agents[name]
		if a.Skills != nil && *a.Skills {
			n.SkillDirs = skillDirs
		}
		n.Agents = append(n.Agents, fleet.Role{Name: name, Description: a.Description, Default: i == 0})
	}
	return n, nil
}

// programs returns the commands of the toolsets in the definition, and of the MCP servers and tools in the agent's configuration.
func (d *ParsedDefinition) programs(c *fleet.AgentConfig) (all []string) {
	for _, a := range d.Config.Agents {
		for _, t := range a.Toolsets {
			all = append(all, t.Command)
		}
	}
	for _, m := range c.MCPServers {
		all = append(all, m.Command)
	}
	for _, t := range c.Tools {
		if len(t.Command) > 0 {
			all = append(all, t.Command[0])
		}
		if t.MCP != nil {
			all = append(all, t.MCP.Server.Command)
		}
	}
	return slices.DeleteFunc(all, func(command string) bool { return command == "" })
}
