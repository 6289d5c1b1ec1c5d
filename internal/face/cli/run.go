package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"fleet/internal/face/wire"
)

// Run runs the command line and returns the exit code of the process. The commands in more are added to the root
// command. Run listens for SIGINT and SIGTERM. The first signal cancels the command's context, and the command may take
// its time to finish. The second signal ends the process, unless Deps.Signals is set. A command that handles signals itself, such as
// "fleet task run --follow", gets all of them instead.
func Run(ctx context.Context, args []string, deps Deps, more ...*cobra.Command) int {
	p := newWithoutToolsets(deps)
	p.root.AddCommand(more...)
	if p.needsToolsets(args) {
		p.addToolsets()
	}
	p.root.SetArgs(args)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer p.interrupts.listen(p.deps.Signals, cancel)()

	started := false
	markStart(p.root, &started)
	err := p.root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	t, targetErr := p.target()
	if targetErr != nil {
		t = Target{Server: p.server}
	}
	f := p.explain(ctx, err, t)
	if !started && f.reason == "FAILED" { // cobra checks arguments and flags before the command begins
		f = &failure{code: ExitUsage, reason: "USAGE", message: f.message}
	}
	if f.reason == "USAGE" && f.hint == "" {
		withHint := *f
		withHint.hint = p.usageHint(args)
		f = &withHint
	}
	fmt.Fprint(p.deps.Stderr, p.errorText(f))
	return f.code
}

// markStart makes cmd and all commands below it set started when they begin, after cobra has accepted their arguments and flags.
func markStart(cmd *cobra.Command, started *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return run(cmd, args)
		}
	} else if run := cmd.Run; run != nil {
		cmd.Run = func(cmd *cobra.Command, args []string) {
			*started = true
			run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStart(sub, started)
	}
}

// usageHint returns a hint that names the help of the intended command.
func (p *program) usageHint(args []string) string {
	if len(args) > 0 && args[0] == "help" { // the intended command is the argument of help
		args = args[1:]
	}
	cmd, _, err := p.root.Find(args)
	if err != nil {
		cmd = p.root
	}
	return fmt.Sprintf(`see "%s --help"`, cmd.CommandPath())
}

// errorText returns an error as it is printed on standard error: one line for people, the error object for programs. It returns "" if the
// failure has no message.
func (p *program) errorText(f *failure) string {
	if f.message == "" {
		return ""
	}
	if p.output.forPeople() {
		return "fleet: " + printable(oneLine(f.Error())) + "\n"
	}
	body := wire.Error{Reason: f.reason, Message: cmp.Or(f.apiMessage, f.Error()), Details: f.details}.JSON()
	text, err := p.output.document(body)
	if err != nil {
		text = string(body) + "\n"
	}
	return text
}
