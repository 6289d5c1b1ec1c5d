// Package cli is the command line of Fleet, an ordinary client of the gRPC API. It prints tables for people and the
// API's JSON or YAML for programs, follows running tasks across server restarts, and exits with codes that scripts can
// use.
package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// These are the groups of commands in the root's help. The app adds its own commands to GroupServer.
const (
	GroupWork   = "work"
	GroupTools  = "tools"
	GroupServer = "server"
	GroupMore   = "more"
)

// program is the command line: its commands, its dependencies and the values of the persistent flags.
type program struct {
	deps         Deps
	root         *cobra.Command
	interrupts   interrupts
	toolCommands map[string]toolCommand // by tool; see commandsFor
	runningCmd   *cobra.Command         // nil until a command begins

	server, tokenFile, data       string
	caFile, clientCert, clientKey string
	embedded, insecure            bool
	output                        format
	timeout                       time.Duration
	noColor, quiet, verbose       bool
}

// programKey is the key of the program in the context of a command.
type programKey struct{}

// New returns the root command. Most callers want Run, which adds signals, error messages and exit codes.
func New(deps Deps) *cobra.Command { return newProgram(deps).root }

func newProgram(deps Deps) *program {
	p := newWithoutToolsets(deps)
	p.addToolsets()
	return p
}

// newWithoutToolsets returns the program without the toolsets' commands. Most command lines do not need them, and it takes time to read
// their texts from a large document.
func newWithoutToolsets(deps Deps) *program {
	p := &program{deps: deps.withDefaults(), output: tableFormat}
	root := &cobra.Command{
		Use:   "fleet",
		Short: "Manage a fleet of AI coding agents",
		Long: `fleet manages AI coding agents: create them in workspaces of their own, give them
tasks, follow them live, and keep what they did.

Start a server with "fleet serve". Then "fleet project list" shows what agents can
work on. Scripts find the exit codes in "fleet help exit-codes".`,
		Example: `  fleet agent create papi --project shell --spec "Try things"
  fleet task run papi "uname -a; date" --follow
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
	setCompletion(root, "output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))

	root.AddGroup(
		&cobra.Group{ID: GroupWork, Title: "Agents and their work:"},
		&cobra.Group{ID: GroupTools, Title: "Toolsets:"},
		&cobra.Group{ID: GroupServer, Title: "The server:"},
		&cobra.Group{ID: GroupMore, Title: "More:"},
	)
	root.SetHelpCommandGroupID(GroupMore)
	root.SetCompletionCommandGroupID(GroupMore)
	Group(root)
	for _, cmd := range []*cobra.Command{
		p.newProject(), p.newRole(), p.newAgent(), p.newKept(), p.newTask(), p.newUp(), p.newBulk(), p.newQueue(), p.newOverlaps(), p.newSchedule(), p.newPool(), p.newBudget(), p.newCredential(), p.newWebhook(), callsTool(p.newWatch(), "watch_fleet"), p.newQuestions(), callsTool(p.newAnswer(), "answer_question"),
		p.newStatus(), p.newSearch(), p.newUsage(),
	} {
		cmd.GroupID = GroupWork
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{p.newLogin(), p.newLogout(), p.newToken(), p.newAudit(), p.newPrincipal(), p.newReplica(), p.newReload(), p.newPause(), p.newResume(), p.newPrune(), p.newOpen()} {
		cmd.GroupID = GroupServer
		root.AddCommand(cmd)
	}
	version := p.newVersion()
	version.GroupID = GroupMore
	root.AddCommand(version, newFlags(root.PersistentFlags()), newExitCodes(), newEnvironment())
	p.deriveArguments(root)
	refuseUnknownTopics(root)
	return p
}

// addToolsets adds the toolsets' commands. All other commands must have been added before, because the descriptions of toolsets name them.
func (p *program) addToolsets() {
	for _, t := range toolsets() {
		cmd := p.newToolset(t)
		cmd.GroupID = GroupTools
		p.root.AddCommand(cmd)
	}
}

// needsToolsets reports whether the command line needs the toolsets' commands: to call or complete one of them, or to
// show or suggest commands.
func (p *program) needsToolsets(args []string) bool {
	cmd, _, err := p.root.Find(args)
	if err != nil || cmd == p.root {
		return true
	}
	for cmd.Parent() != p.root {
		cmd = cmd.Parent()
	}
	return cmd.GroupID != GroupWork && cmd.GroupID != GroupServer
}

func (p *program) addFlags(f *pflag.FlagSet) {
	f.StringVar(&p.server, "server", "", "use the server at `HOST:PORT`, or https://HOST:PORT (env FLEET_SERVER, default "+DefaultServer+")")
	f.StringVar(&p.tokenFile, "token-file", "", "read your token from `FILE` (env FLEET_TOKEN_FILE; env FLEET_TOKEN has the token itself)")
	f.StringVar(&p.caFile, "ca-file", "", "trust servers whose certificate comes from an authority in `FILE` (env FLEET_CA_FILE)")
	f.StringVar(&p.clientCert, "client-cert", "", "show the server the certificate in `FILE` (env FLEET_CLIENT_CERT)")
	f.StringVar(&p.clientKey, "client-key", "", "read the private key of --client-cert from `FILE` (env FLEET_CLIENT_KEY)")
	f.BoolVar(&p.insecure, "insecure", false, "use no TLS, even if the server is on another machine")
	f.BoolVar(&p.embedded, "embedded", false, "use no server: work in this process, on the data of this machine")
	f.StringVar(&p.data, "data", "", "with --embedded: keep the data in `DIR` (env FLEET_DATA)")
	f.VarP(&p.output, "output", "o", "print as `FORMAT`: table, wide, json or yaml")
	f.DurationVar(&p.timeout, "timeout", 0, "give up after `DURATION`, such as 30s; 0 means never")
	f.BoolVar(&p.noColor, "no-color", false, "use no colours (env NO_COLOR)")
	f.BoolVarP(&p.quiet, "quiet", "q", false, "print only names and ids, no progress and no hints")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "report each step on standard error")
}
