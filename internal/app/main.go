package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"

	"fleet/internal/face/cli"
	"fleet/internal/model/run"
	"fleet/internal/runner"
)

// Main runs the program with the arguments after its name and returns its exit code.
func Main(args []string) int {
	if code, ran := runner.Main(args); ran {
		return code
	}
	if len(args) > 0 && args[0] == modelCommand {
		return run.Main()
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // callers receive the errors anyway
	p := &program{version: Version(), environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, setLog: slog.SetDefault}
	return p.run(context.Background(), args)
}

// program is the command line with its dependencies.
type program struct {
	version        string
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	setLog         func(*slog.Logger) // sets the logger that libraries use; nil in tests
}

// run runs the command in args and returns its exit code.
func (p *program) run(ctx context.Context, args []string) int {
	deps := cli.Deps{Version: p.version, MissingFeatures: run.MissingFeatures, Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, Dial: p.dial}
	return cli.Run(ctx, args, deps, p.commands()...)
}

// commands returns the commands that the app adds to the client's commands.
func (p *program) commands() []*cobra.Command {
	return []*cobra.Command{p.newServe(), p.newMCP(), p.newInit(), p.newMigrate(), p.newBackup(), p.newImport(), p.newDoctor(), p.newSupportBundle()}
}

// dial connects to a server, or opens a fleet in this process and connects to it. The returned function closes what dial opened.
func (p *program) dial(ctx context.Context, t cli.Target) (grpc.ClientConnInterface, func() error, error) {
	if !t.Embedded {
		return cli.DialNetwork(ctx, t)
	}
	a, err := p.embed(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	return a.Conn(), a.startEmbedded(), nil
}

// withData returns the environment with data, the directory of --data, which takes precedence over the configured directory.
// It returns environ if data is "".
func withData(environ []string, data string) []string {
	if data != "" {
		return append(slices.Clone(environ), "FLEET_DATA="+data)
	}
	return environ
}

// logWith makes libraries log to the app's log. It affects the whole process, so tests leave setLog nil.
func (p *program) logWith(a *App) {
	if p.setLog != nil {
		p.setLog(slog.New(noDebug{a.log.Handler()}))
	}
}

// noDebug drops the debug messages of libraries, which contain prompts.
type noDebug struct{ slog.Handler }

// Enabled implements slog.Handler.
func (n noDebug) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelInfo && n.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (n noDebug) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noDebug{n.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (n noDebug) WithGroup(name string) slog.Handler { return noDebug{n.Handler.WithGroup(name)} }

// closeWith calls c and joins its error to *err. It is for deferred calls.
func closeWith(err *error, c func() error) { *err = errors.Join(*err, c()) }
