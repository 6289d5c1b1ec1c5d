package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// calls declares that the command calls the method behind a tool. Messages of the server name tools; the command line
// shows the command instead. The arguments name what the error's details may give: "{agent_name}".
func calls(cmd *cobra.Command, tool string, arguments ...string) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[toolPrefix+tool] = strings.Join(arguments, " ")
	return cmd
}

const toolPrefix = "tool:"

// commands maps tools to the commands that call them: of the toolset, and then of any other.
type commands struct {
	set   *toolset
	other map[string]string // without "fleet"
}

// commandsFor returns the commands as the toolset sees them. The set is nil for agents and tasks.
func (p *program) commandsFor(set *toolset) commands {
	if p.commands == nil {
		p.commands = map[string]string{}
		for _, t := range toolsets() {
			for _, m := range t.methods {
				p.commands[m.tool()] = t.name + " " + m.command
			}
		}
		walkTools(p.root, p.commands)
	}
	return commands{set, p.commands}
}

func walkTools(cmd *cobra.Command, found map[string]string) {
	for key, arguments := range cmd.Annotations {
		if tool, ok := strings.CutPrefix(key, toolPrefix); ok {
			found[tool] = strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "fleet ") + " " + arguments)
		}
	}
	for _, sub := range cmd.Commands() {
		walkTools(sub, found)
	}
}

// of returns the command for a tool, with the details that its arguments name; empty if there is none. A command whose
// arguments are not known is shown without them.
func (c commands) of(tool string, details map[string]any) string {
	command := c.other[tool]
	if c.set != nil {
		for _, m := range c.set.methods {
			if m.tool() == tool {
				command = c.set.name + " " + m.command
			}
		}
	}
	if command == "" {
		return ""
	}
	known := true
	line := inBraces.ReplaceAllStringFunc(command, func(name string) string {
		value, ok := details[strings.Trim(name, "{}")].(string)
		known = known && ok && value != "" && !strings.ContainsAny(value, " \"'")
		return value
	})
	if !known {
		line, _, _ = strings.Cut(command, " {")
		line, _, _ = strings.Cut(line, " --")
	}
	return `"fleet ` + line + `"`
}

// inBraces matches the name of a tool in a next step, and that of a detail in the arguments of a command.
var inBraces = regexp.MustCompile(`\{[a-z_]+\}`)

// toolName matches names of tools in the API's descriptions, which are all that has two words and an underscore.
var toolName = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b`)

// describe returns a description of the API with commands in place of tools.
func (c commands) describe(text string) string {
	return toolName.ReplaceAllStringFunc(text, func(tool string) string {
		if line := c.of(tool, nil); line != "" {
			return line
		}
		return tool
	})
}

// nextStep returns what the server says to do next, with commands in place of tools, and the message without it.
func (c commands) nextStep(s *status.Status, message string, details map[string]any) (next, rest string) {
	for _, d := range s.Details() {
		step, ok := d.(*fleetv1.NextStep)
		if !ok {
			continue
		}
		next = inBraces.ReplaceAllStringFunc(step.GetText(), func(tool string) string {
			tool = strings.Trim(tool, "{}")
			if line := c.of(tool, details); line != "" {
				return line
			}
			return tool
		})
		plain := strings.NewReplacer("{", "", "}", "").Replace(step.GetText())
		return next, strings.TrimSuffix(message, "; "+plain)
	}
	return "", message
}
