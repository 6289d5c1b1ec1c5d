// Command fleet-runner runs an agent's tasks where the agent lives, for example in a Coder workspace. Fleet calls it
// through a proxy; see docs/templates/fleet-runner. It listens only on a loopback address. It accepts only health checks and
// requests that Fleet has signed. It keeps everything on disk: if it is killed, runs continue, and it finds them after a
// restart.
//
// It connects packages runner and remote. It must never import the store, the service or a face, because it runs in
// workspaces that belong to agents.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"fleet/internal/runner"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/remote"
)

var version = "devel" // set by the linker

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `fleet-runner runs the tasks of an agent for Fleet.

  fleet-runner serve    serve Fleet; see fleet-runner serve -h
  fleet-runner version  print the version
`

func run(args []string, stdout, stderr io.Writer) int {
	if code, handled := runner.Main(args); handled {
		return code
	}
	if len(args) == 0 {
		args = []string{""}
	}
	switch args[0] {
	case "serve":
		if err := serve(args[1:], stderr); err != nil {
			if !errors.Is(err, flag.ErrHelp) {
				fmt.Fprintln(stderr, "fleet-runner:", err)
			}
			return 1
		}
		return 0
	case "version":
		fmt.Fprintln(stdout, version)
		return 0
	}
	fmt.Fprint(stderr, usage)
	return 2
}

// defaultListen is the address that the template's app expects.
const defaultListen = "127.0.0.1:3285"

func serve(args []string, stderr io.Writer) error {
	var s settings
	f := flag.NewFlagSet("fleet-runner serve", flag.ContinueOnError)
	f.SetOutput(stderr)
	listen := f.String("listen", defaultListen, "loopback address to listen on")
	key := f.String("key", os.Getenv("FLEET_PUBLIC_KEY"), "Fleet's public key; default $FLEET_PUBLIC_KEY")
	f.StringVar(&s.stateDir, "state", "", "directory for runs and their output; default ~/.local/state/fleet-runner")
	f.StringVar(&s.workDir, "dir", "", "directory that the agent works in; default the home directory")
	f.StringVar(&s.driver, "driver", "claude", "driver of the agent's program: "+strings.Join(driverNames(), ", "))
	f.Var(&s.command, "command", "program of the agent, if it is not the driver's default; repeat the flag for each argument of the program")
	f.StringVar(&s.model, "model", "", "model of the agent; default the program's default model")
	f.StringVar(&s.permissionMode, "permission-mode", "", "permission mode of the agent's program, such as acceptEdits")
	f.BoolVar(&s.canAsk, "ask", false, "let the agent ask people for permissions and answers")
	f.Var((*listFlag)(&s.permissions.Allow), "allow", "rule for tool calls that are allowed without asking, such as 'Bash(go test *)'; can be repeated")
	f.Var((*listFlag)(&s.permissions.Deny), "deny", "rule for tool calls that are denied without asking; can be repeated")
	f.DurationVar(&s.permissions.Timeout, "ask-timeout", driver.DefaultAskTimeout, "how long a question waits for its answer")
	f.StringVar(&s.promptFile, "prompt-file", "", "file with the prompt of the agent's role; read for each task")
	f.Int64Var(&s.maxPayloadOutput, "max-output", runner.DefaultMaxPayloadOutput, "maximum size of the output in the payload of a run, in bytes")
	f.Int64Var(&s.maxRawOutput, "output-max", runner.DefaultMaxRawOutput, "maximum size of the raw output that is kept for a run, in bytes")
	f.DurationVar(&s.grace, "grace", runner.DefaultStopGrace, "how long a run may take to end after it was interrupted, before it is killed")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("unknown argument %q: see fleet-runner serve -h", f.Arg(0))
	}
	publicKey, err := remote.ParsePublicKey(*key)
	if err != nil {
		return fmt.Errorf("-key: %w", err)
	}
	if err := checkLoopback(*listen); err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	s.logger = slog.New(slog.NewTextHandler(stderr, nil))
	m, err := newMachine(s)
	if err != nil {
		return err
	}
	defer func() { _ = m.temp.Close() }()
	defer m.host.Close()
	server, err := remote.NewServer(m, remote.ServerConfig{Key: publicKey, Version: version, Options: driver.SupportedOptions(m.agentDriver), Logger: s.logger})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	web := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })() // Fleet retries the calls
	s.logger.Info("serving", "address", listener.Addr().String(), "version", version)
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// listFlag has the values of a flag that can be repeated.
type listFlag []string

func (l *listFlag) String() string { return strings.Join(*l, " ") }

func (l *listFlag) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// checkLoopback returns an error for an address that other machines can reach. It also refuses host names, because the
// workspace decides what they resolve to.
func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%q is not a loopback address: use 127.0.0.1 or [::1]", host)
	}
	return nil
}

// defaultStateDir returns the default value of the flag -state.
func defaultStateDir() (string, error) {
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "fleet-runner"), err
}
