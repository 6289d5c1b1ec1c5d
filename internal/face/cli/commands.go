package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
)

// callsTool declares that the command calls the method behind a tool. Messages of the server name tools; the command line
// shows the command instead, followed by the arguments. An argument with dashes is a flag. Any other argument names a
// detail of the error that names the tool, such as agent_name, and is replaced by the value of that detail.
func callsTool(cmd *cobra.Command, tool string, arguments ...string) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[toolPrefix+tool] = strings.Join(arguments, " ")
	return cmd
}

const toolPrefix = "tool:"

// toolCommand is a command that calls a tool's method: its path, and the arguments that were given to callsTool.
type toolCommand struct{ path, arguments string }

// commandFinder finds the command that calls a tool. It looks among the commands of the toolset first, and then among all
// others.
type commandFinder struct {
	toolset *toolset
	byTool  map[string]toolCommand
}

// commandsFor returns a finder that prefers the commands of the toolset. set is nil for commands outside of toolsets, such as
// "fleet agent" and "fleet task".
func (p *program) commandsFor(set *toolset) commandFinder {
	if p.toolCommands == nil {
		p.toolCommands = map[string]toolCommand{}
		for _, t := range toolsets() {
			for _, m := range t.methods {
				p.toolCommands[m.toolName()] = toolCommand{path: m.commandLine()}
			}
		}
		collectTools(p.root, p.toolCommands)
	}
	return commandFinder{set, p.toolCommands}
}

// collectTools adds the commands that callsTool has marked to byTool: cmd and all commands below it.
func collectTools(cmd *cobra.Command, byTool map[string]toolCommand) {
	for key, arguments := range cmd.Annotations {
		if tool, ok := strings.CutPrefix(key, toolPrefix); ok {
			byTool[tool] = toolCommand{cmd.CommandPath(), arguments}
		}
	}
	for _, sub := range cmd.Commands() {
		collectTools(sub, byTool)
	}
}

// quotedCommand returns the command for the tool in quotes, with the values of the details that its arguments name. If a value is
// missing or would need quotes, it returns the command without arguments. If no command calls the tool, it returns the
// tool's name.
func (c commandFinder) quotedCommand(tool string, details map[string]any) string {
	found, ok := c.byTool[tool]
	if c.toolset != nil {
		for _, m := range c.toolset.methods {
			if m.toolName() == tool {
				found, ok = toolCommand{path: m.commandLine()}, true
			}
		}
	}
	if !ok {
		return tool
	}
	text := found.path
	for _, argument := range strings.Fields(found.arguments) {
		if !strings.HasPrefix(argument, "--") {
			value, _ := details[argument].(string)
			if value == "" || strings.ContainsAny(value, " \"'") {
				text = found.path
				break
			}
			argument = value
		}
		text += " " + argument
	}
	return `"` + text + `"`
}

// formatDescription wraps a description from the API's documentation, as wrapText does. It replaces tools, which are in backticks,
// by commands.
func (c commandFinder) formatDescription(text string, width int) string {
	return wrapText(replaceMarked(text, "`", "`", func(tool string) string { return strings.ReplaceAll(c.quotedCommand(tool, nil), " ", noBreakSpace) }), width)
}

// nextStep returns the next step that the server recommends, with commands in place of tools, and the message without
// that step. If the server recommends none, next is empty and rest is the message.
func (c commandFinder) nextStep(s *status.Status, message string, details map[string]any) (next, rest string) {
	for _, d := range s.Details() {
		step, ok := d.(*fleetv1.NextStep)
		if !ok {
			continue
		}
		next = replaceMarked(step.GetText(), "{", "}", func(tool string) string { return c.quotedCommand(tool, details) })
		plain := replaceMarked(step.GetText(), "{", "}", func(tool string) string { return tool })
		return next, strings.TrimSuffix(message, "; "+plain)
	}
	return "", message
}
