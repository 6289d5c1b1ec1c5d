package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// calls declares that the command calls the method behind a tool. Messages of the server name tools; the command line
// shows the command instead. Of the arguments, those with dashes are flags, and the others are details of the error that
// names the tool, such as agent_name.
func calls(cmd *cobra.Command, tool string, arguments ...string) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[toolPrefix+tool] = strings.Join(arguments, " ")
	return cmd
}

const toolPrefix = "tool:"

// caller is a command that calls a tool's method: its path, and its arguments as calls has them.
type caller struct{ path, arguments string }

// commands finds the command that calls a tool: of the toolset, and then any other.
type commands struct {
	set    *toolset
	byTool map[string]caller
}

// commandsFor returns the commands as the toolset sees them. The set is nil for agents and tasks.
func (p *program) commandsFor(set *toolset) commands {
	if p.commands == nil {
		p.commands = map[string]caller{}
		for _, t := range toolsets() {
			for _, m := range t.methods {
				p.commands[m.tool()] = caller{path: m.line()}
			}
		}
		walkTools(p.root, p.commands)
	}
	return commands{set, p.commands}
}

func walkTools(cmd *cobra.Command, found map[string]caller) {
	for key, arguments := range cmd.Annotations {
		if tool, ok := strings.CutPrefix(key, toolPrefix); ok {
			found[tool] = caller{cmd.CommandPath(), arguments}
		}
	}
	for _, sub := range cmd.Commands() {
		walkTools(sub, found)
	}
}

// of returns the command for a tool in quotes, with the details that its arguments name. If there is none, it returns the
// tool. A command whose arguments are not known is shown without them.
func (c commands) of(tool string, details map[string]any) string {
	found, ok := c.byTool[tool]
	if c.set != nil {
		for _, m := range c.set.methods {
			if m.tool() == tool {
				found, ok = caller{path: m.line()}, true
			}
		}
	}
	if !ok {
		return tool
	}
	line := found.path
	for _, argument := range strings.Fields(found.arguments) {
		if !strings.HasPrefix(argument, "--") {
			value, _ := details[argument].(string)
			if value == "" || strings.ContainsAny(value, " \"'") {
				line = found.path
				break
			}
			argument = value
		}
		line += " " + argument
	}
	return `"` + line + `"`
}

// describe returns a description of the API in lines of the width, with commands in place of tools, which it has in
// backticks.
func (c commands) describe(text string, width int) string {
	return wrap(marked(text, "`", "`", func(tool string) string { return strings.ReplaceAll(c.of(tool, nil), " ", glue) }), width)
}

// nextStep returns what the server says to do next, with commands in place of tools, and the message without it.
func (c commands) nextStep(s *status.Status, message string, details map[string]any) (next, rest string) {
	for _, d := range s.Details() {
		step, ok := d.(*fleetv1.NextStep)
		if !ok {
			continue
		}
		next = marked(step.GetText(), "{", "}", func(tool string) string { return c.of(tool, details) })
		plain := marked(step.GetText(), "{", "}", func(tool string) string { return tool })
		return next, strings.TrimSuffix(message, "; "+plain)
	}
	return "", message
}
