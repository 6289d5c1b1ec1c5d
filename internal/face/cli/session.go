package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

// session is one running command, with its connection and its screen.
type session struct {
	*program
	cmd    *cobra.Command
	target Target
	screen *screen
	fleet  fleetv1.FleetServiceClient
	tokens fleetv1.TokenServiceClient
	conn   *conn
	// stdinArgument names the argument that was read from standard input. Standard input can be read only once.
	stdinArgument string
	// printedText is the part of the response's text that was already printed on standard output while it arrived.
	printedText string
	// printedDocument says that a document was printed already, so the next one needs a separator.
	printedDocument bool
}

// action returns the function that cobra runs for a command. The function connects to the target, and calls do with the session.
func (p *program) action(do func(ctx context.Context, s *session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		ctx, cancel := p.withTimeout(cmd.Context())
		defer cancel()
		p.runningCmd = cmd
		target, err := p.target()
		if err != nil {
			return err
		}
		s := &session{program: p, cmd: cmd, target: target, screen: p.newScreen()}
		connection, closeConn, err := p.deps.Dial(ctx, target)
		if err != nil {
			return p.explain(ctx, err, target)
		}
		defer func() {
			if e := closeConn(); err == nil && target.Embedded {
				err = e
			}
		}()
		s.connect(&conn{ClientConnInterface: connection, reconnectTime: p.deps.reconnectTime, onOutage: s.reportOutage, onReconnect: s.reportReconnect, renewsTokens: target.Login != nil, readsWholeLists: p.quiet && p.output.forPeople()})
		if err := do(ctx, s, args); err != nil {
			return p.explain(ctx, err, target)
		}
		return nil
	}
}

// withTimeout returns a context that ends after the time of --timeout, if it is given. The caller must call cancel.
func (p *program) withTimeout(ctx context.Context) (_ context.Context, cancel context.CancelFunc) {
	if p.timeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, p.timeout, errTimeout)
}

// connect makes the session call the server through c.
func (s *session) connect(c *conn) {
	s.conn, s.fleet, s.tokens = c, fleetv1.NewFleetServiceClient(c), fleetv1.NewTokenServiceClient(c)
}

// newScreen returns the screen for the program's standard streams.
func (p *program) newScreen() *screen {
	outTerminal, errTerminal := terminalOf(p.deps.Stdout, p.deps.Getenv), terminalOf(p.deps.Stderr, p.deps.Getenv)
	return &screen{
		stdout: p.deps.Stdout, stderr: p.deps.Stderr, outTerminal: outTerminal, errTerminal: errTerminal,
		colors: errTerminal.hasColors(p.noColor), outSanitizer: &sanitizer{colors: outTerminal.hasColors(p.noColor)},
	}
}

// hint writes a hint for people, such as the next step, to standard error.
func (s *session) hint(text string, args ...any) {
	if !s.quiet && s.output.forPeople() {
		s.screen.printErrLine(paint(s.screen.colors, dim, printable(fmt.Sprintf(text, args...))))
	}
}

// printsEvents reports whether notes and events are written to standard error. Programs read error objects there, so they get events
// only with --verbose.
func (s *session) printsEvents() bool { return !s.quiet && (s.output.forPeople() || s.verbose) }

// note writes a line about the progress of the command. It writes to standard error, and only if printsEvents allows it.
func (s *session) note(text string, args ...any) {
	if s.printsEvents() {
		s.screen.printErrLine(printable(fmt.Sprintf(text, args...)))
	}
}

// printError prints an error after which the command goes on.
func (s *session) printError(f *failure) {
	if text := s.errorText(f); text != "" {
		s.screen.printErrLine(strings.TrimSuffix(text, "\n"))
	}
}

func (s *session) reportOutage() {
	s.note("The connection to %s broke; trying to reach it again ...", s.target.Server)
}

func (s *session) reportReconnect() { s.note("Connected again.") }

// printResult prints the server's message, or only the name with -q.
func (s *session) printResult(message, name string) {
	if s.quiet {
		message = name
	}
	s.screen.print(printable(s.translateForPeople(nil, message, nil)) + "\n")
}
