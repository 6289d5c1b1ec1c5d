package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fleet/internal/face/wire"
)

// These are the groups of commands in the root's help. The app adds its own commands to GroupServer.
const (
	GroupWork   = "work"
	GroupTools  = "tools"
	GroupServer = "server"
	GroupMore   = "more"
)

// program is one command line: its dependencies and the persistent flags.
type program struct {
	deps       Deps
	root       *cobra.Command
	interrupts interrupts
	commands   map[string]caller // by tool; see commandsFor

	server, tokenFile, data string
	embedded, insecure      bool
	output                  format
	timeout                 time.Duration
	noColor, quiet, verbose bool
}

type programKey struct{}

// New returns the root command. Most callers want Run, which adds signals, error messages and exit codes.
func New(deps Deps) *cobra.Command { return newProgram(deps).root }

func newProgram(deps Deps) *program {
	p := &program{deps: deps.withDefaults(), output: table}
	root := &cobra.Command{
		Use:   "fleet",
		Short: "Manage a fleet of AI coding agents",
		Long: `fleet manages AI coding agents: create them in workspaces of their own, hand them
tasks, follow them live, and keep what they did.

Start a server with "fleet serve", then see what agents can work on with
"fleet project list".`,
		Example: `  fleet agent create papi --project shell --spec "Keep the build green"
  fleet task run papi "make test" --follow
  fleet task list papi`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetContext(context.WithValue(cmd.Context(), programKey{}, p))
			return nil
		},
	}
	p.root = root
	root.SetIn(p.deps.Stdin)
	root.SetOut(p.deps.Stdout)
	root.SetErr(p.deps.Stderr)
	root.SetFlagErrorFunc(flagError)
	root.Version = p.deps.Version
	root.SetVersionTemplate("fleet {{.Version}}\n")
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate()))
	p.addFlags(root.PersistentFlags())
	complete(root, "output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	complete(root, "server", cobra.NoFileCompletions)
	complete(root, "timeout", cobra.NoFileCompletions)

	root.AddGroup(
		&cobra.Group{ID: GroupWork, Title: "Agents and their work:"},
		&cobra.Group{ID: GroupTools, Title: "Toolsets:"},
		&cobra.Group{ID: GroupServer, Title: "The server:"},
		&cobra.Group{ID: GroupMore, Title: "More:"},
	)
	root.SetHelpCommandGroupID(GroupMore)
	root.SetCompletionCommandGroupID(GroupMore)
	group(root)
	for _, cmd := range []*cobra.Command{
		p.newProject(), p.newRole(), p.newAgent(), p.newTask(), calls(p.newWatch(), "watch_fleet"), calls(p.newQuestions(), "list_questions"), calls(p.newAnswer(), "answer_question"),
		p.newStatus(), p.newSearch(), p.newUsage(),
	} {
		cmd.GroupID = GroupWork
		root.AddCommand(cmd)
	}
	token, open, version := p.newToken(), p.newOpen(), p.newVersion()
	token.GroupID, open.GroupID, version.GroupID = GroupServer, GroupServer, GroupMore
	root.AddCommand(token, open, version, newExitCodes(), newEnvironment())
	for _, t := range toolsets() { // their descriptions name the commands above
		cmd := p.newToolset(t)
		cmd.GroupID = GroupTools
		root.AddCommand(cmd)
	}
	knowingHelp(root)
	return p
}

func (p *program) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.server, "server", "", "talk to the server at `HOST:PORT` (env FLEET_SERVER, default "+DefaultServer+")")
	f.StringVar(&p.tokenFile, "token-file", "", "read your token from `FILE` (or env FLEET_TOKEN has the token itself)")
	f.BoolVar(&p.insecure, "insecure", false, "no TLS, also when the server is on another machine")
	f.BoolVar(&p.embedded, "embedded", false, "no server: run on the data of this machine, in this process")
	f.StringVar(&p.data, "data", "", "data `DIR` of --embedded (env FLEET_DATA)")
	f.VarP(&p.output, "output", "o", "print as `FORMAT`: table, wide, json or yaml")
	f.DurationVar(&p.timeout, "timeout", 0, "give up after `DURATION`, such as 30s; 0 means never")
	f.BoolVar(&p.noColor, "no-color", false, "no colours (env NO_COLOR)")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "names and ids only, no progress and no hints")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "tell each step on standard error")
}

// usageTemplate is cobra's template with two changes: commands that only have subcommands are not shown as runnable,
// and the column of topics is wider.
func usageTemplate(cobras string) string {
	return strings.NewReplacer(
		"{{if .Runnable}}\n  {{.UseLine}}{{end}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}\n  {{.UseLine}}{{end}}",
		"{{rpad .CommandPath .CommandPathPadding}}", "{{rpad .CommandPath 18}}",
	).Replace(cobras)
}

// group makes cmd a command with subcommands only. Alone it prints its help, and for an unknown subcommand it suggests
// the nearest.
func group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	return cmd
}

func unknownCommand(cmd *cobra.Command, name string) error {
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

// flagError suggests the nearest flag.
func flagError(cmd *cobra.Command, err error) error {
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return unknownCommand(cmd, args[0]) // the flag may be right for the intended command
	}
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return wrongValue(wrong)
	}
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) || missing.GetSpecifiedShortnames() != "" {
		return usagef("%v", err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	name := missing.GetSpecifiedName()
	if near := wire.Nearest(name, names); near != "" {
		return usagef("unknown flag --%s; did you mean --%s?", name, near)
	}
	return usagef("unknown flag --%s", name)
}

// wrongValue says which values the flag takes. Fleet's own flag types do that themselves.
func wrongValue(e *pflag.InvalidValueError) error {
	f, cause := e.GetFlag(), e.Unwrap()
	_, number := errors.AsType[*strconv.NumError](cause)
	switch kind := f.Value.Type(); {
	case kind == "duration" && strings.HasPrefix(cause.Error(), "time: "):
		return usagef("--%s is %q: give a time with its unit, such as 30s, 45m or 24h", f.Name, e.GetValue())
	case !number:
		return usagef("--%s is %q: %v", f.Name, e.GetValue(), cause)
	case errors.Is(cause, strconv.ErrRange):
		return usagef("--%s is %q, which is too large or too small", f.Name, e.GetValue())
	case kind == "bool":
		return usagef("--%s is %q: give true or false", f.Name, e.GetValue())
	case strings.HasPrefix(kind, "float"):
		return usagef("--%s is %q: give a number", f.Name, e.GetValue())
	}
	return usagef("--%s is %q: give a whole number", f.Name, e.GetValue())
}

// knowingHelp lets the help command refuse unknown commands.
func knowingHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, help := range root.Commands() {
		if show := help.Run; help.Name() == "help" && show != nil {
			help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return unknownCommand(found, append(rest, args...)[0])
				}
				show(cmd, args)
				return nil
			}
		}
	}
}

// args checks the number of arguments and names the missing one. what is as in the usage line: "AGENT DESCRIPTION".
func args(what string) cobra.PositionalArgs {
	names := strings.Fields(what)
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%s is missing: %s", names[len(args)], cmd.UseLine())
		case len(args) > len(names):
			return usagef("too many arguments, from %q on; put quotes around a text of several words", args[len(names)])
		}
		return nil
	}
}

// atMostOne does the same as args for one optional argument.
func atMostOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if len(given) == 0 {
			return nil
		}
		return args(what)(cmd, given)
	}
}

// atLeastOne does the same as args for one or more arguments.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s is missing: %s", what, cmd.UseLine())
		}
		return nil
	}
}

// complete sets the completion of a flag's value. It panics if the flag does not exist, which is a bug.
func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("cli: completion of --%s of %q: %v", flag, cmd.Name(), err))
	}
}
