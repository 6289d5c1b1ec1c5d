package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"fleet/internal/face/wire"
)

// usageTemplate returns cobra's template with three changes: commands that only have subcommands are not shown as runnable, the
// column of topics is wider, and a reference to "fleet help flags" replaces the list of global flags.
func usageTemplate(template string) string {
	return strings.NewReplacer(
		"{{if .Runnable}}\n  {{.UseLine}}{{end}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}\n  {{.UseLine}}{{end}}",
		"{{rpad .CommandPath .CommandPathPadding}}", "{{rpad .CommandPath 18}}",
		"Global Flags:\n{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}", "See \"fleet help flags\" for the flags of all commands, such as -o json and --server.",
	).Replace(template)
}

// Group makes cmd a command that only has subcommands. Without arguments, cmd prints its help. For an unknown
// subcommand, it suggests the nearest one.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return newUnknownCommandError(cmd, args[0])
	}
	return cmd
}

// suggestedCommands maps names that people try at the top level to the commands that they need.
var suggestedCommands = map[string]string{
	"run": "fleet task run", "logs": "fleet task logs", "diff": "fleet task diff", "wait": "fleet task wait", "retry": "fleet task retry", "tasks": "fleet task list",
	"ps": "fleet agent list", "ls": "fleet agent list", "agents": "fleet agent list", "create": "fleet agent create", "start": "fleet agent start", "stop": "fleet agent stop", "rm": "fleet agent delete",
	"delete": "fleet agent delete", "attach": "fleet agent attach", "ask": "fleet questions", "budgets": "fleet budget list", "pools": "fleet pool list",
}

// newUnknownCommandError returns the error for a subcommand that cmd does not have. It suggests another command if one is similar.
func newUnknownCommandError(cmd *cobra.Command, name string) error {
	if other := suggestedCommands[name]; other != "" && !cmd.HasParent() {
		return usagef("unknown command %q for %q; did you mean %q?", name, cmd.CommandPath(), other)
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			names = append(names, sub.Name())
			names = append(names, sub.Aliases...)
		}
	}
	if near := wire.Nearest(name, names); near != "" {
		return usagef("unknown command %q for %q; did you mean %q?", name, cmd.CommandPath(), cmd.CommandPath()+" "+near)
	}
	return usagef("unknown command %q for %q", name, cmd.CommandPath())
}

// refuseUnknownTopics makes the help command fail if its arguments name no command. Cobra's help command would exit with 0.
func refuseUnknownTopics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if show := help.Run; help.Name() == "help" && show != nil {
			help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return newUnknownCommandError(found, append(rest, args...)[0])
				}
				show(cmd, args)
				return nil
			}
		}
	}
}
