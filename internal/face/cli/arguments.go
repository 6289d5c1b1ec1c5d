package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// deriveArguments sets the check of the arguments and the completion of arguments and flag values, for the command and its
// subcommands. It derives them from the usage line and the flags. It changes nothing that the command has set itself.
func (p *program) deriveArguments(cmd *cobra.Command) {
	names := argumentsOf(cmd)
	if cmd.Args == nil {
		cmd.Args = argumentCheck(names)
	}
	if cmd.ValidArgsFunction == nil && len(names) > 0 {
		name, repeatable := strings.CutSuffix(names[0], "...")
		cmd.ValidArgsFunction = p.argumentCompletion(strings.Trim(name, "[]"), repeatable)
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) { p.deriveCompletion(cmd, f) })
	}
	for _, sub := range cmd.Commands() {
		p.deriveArguments(sub)
	}
}

// deriveCompletion sets the completion of the flag's values: the choices of an enum, names, files, or nothing.
func (p *program) deriveCompletion(cmd *cobra.Command, f *pflag.Flag) {
	if _, set := cmd.GetFlagCompletionFunc(f.Name); set {
		return
	}
	placeholder, _ := pflag.UnquoteUsage(f)
	if e, ok := f.Value.(interface{ choices() []string }); ok {
		setCompletion(cmd, f.Name, cobra.FixedCompletions(e.choices(), cobra.ShellCompDirectiveNoFileComp))
	} else if slices.Contains([]string{"agent", "project", "role", "task"}, f.Name) {
		const repeatable = true
		completion := p.argumentCompletion(strings.ToUpper(f.Name), repeatable)
		setCompletion(cmd, f.Name, func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if f.Name != "role" { // the role of an agent depends on the agent
				args = nil
			}
			return completion(cmd, args, typed)
		})
	} else if placeholder != "FILE" && placeholder != "DIR" {
		setCompletion(cmd, f.Name, cobra.NoFileCompletions)
	}
}

// argumentsOf returns the names of the arguments in the command's usage line, up to the first flag: "[AGENT]" for an optional
// argument, "ID..." for one or more, and "[AGENT]..." for any number. Of alternatives such as ID|AGENT, it returns the first.
func argumentsOf(cmd *cobra.Command) (names []string) {
	for _, name := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(name, "--") {
			break
		}
		name, _, _ = strings.Cut(name, "|")
		names = append(names, name)
	}
	return names
}

// argumentCheck returns a check of the number of arguments. Its error names the missing argument.
func argumentCheck(names []string) cobra.PositionalArgs {
	minArgs, maxArgs := len(names), len(names)
	for _, name := range names {
		if strings.HasPrefix(name, "[") {
			minArgs--
		}
		if strings.HasSuffix(name, "...") {
			maxArgs = -1
		}
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < minArgs:
			return usagef("%s is missing: %s", strings.TrimSuffix(names[len(args)], "..."), cmd.UseLine())
		case maxArgs >= 0 && len(args) > maxArgs:
			return newTooManyArgumentsError(args[maxArgs], maxArgs > 0)
		}
		return nil
	}
}

// newTooManyArgumentsError returns the error about the first surplus argument. takesAny says whether the command takes
// any arguments.
func newTooManyArgumentsError(arg string, takesAny bool) error {
	if !takesAny {
		return usagef("too many arguments, from %q on: the command takes no arguments", arg)
	}
	return usagef("too many arguments, from %q on; put quotes around a text of several words", arg)
}
