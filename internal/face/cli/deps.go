package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"fleet/internal/face/cli/login"
	"fleet/internal/userdir"
)

// Dialer connects to a target. The function it returns closes the connection and waits for an embedded server to stop.
type Dialer func(ctx context.Context, t Target) (grpc.ClientConnInterface, func() error, error)

// Deps are the command line's dependencies. The zero value is the real environment without an embedded server.
type Deps struct {
	// Version is what "fleet version" prints.
	Version string
	// MissingFeatures says what this build of the program cannot do, such as "agents of cagent, because ..."; may be empty.
	MissingFeatures string
	// Stdin, Stdout and Stderr default to those of the process.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Dial connects to the server; nil means DialNetwork.
	Dial Dialer
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// Logins stores sign-ins; the zero value stores them in the user's configuration directory.
	Logins login.Store
	// Signals delivers interrupts; if nil, Run listens for SIGINT and SIGTERM itself.
	Signals <-chan os.Signal

	// reconnectTime is how long a broken connection that once worked may stay broken before a command gives up.
	reconnectTime time.Duration
	// completionTimeout is how long a shell waits for completions.
	completionTimeout time.Duration
	// secondPressTime is how long a command waits for a second Ctrl-C after the first.
	secondPressTime time.Duration
}

func (d Deps) withDefaults() Deps {
	d.Version = cmp.Or(d.Version, "devel")
	d.Stdin = cmp.Or[io.Reader](d.Stdin, os.Stdin)
	d.Stdout, d.Stderr = cmp.Or[io.Writer](d.Stdout, os.Stdout), cmp.Or[io.Writer](d.Stderr, os.Stderr)
	if d.Dial == nil {
		d.Dial = DialNetwork
	}
	if d.Getenv == nil {
		d.Getenv = os.Getenv
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if dir := userdir.Config(); d.Logins.Dir == "" && dir != "" {
		d.Logins.Dir = filepath.Join(dir, "logins")
	}
	d.reconnectTime = cmp.Or(d.reconnectTime, 2*time.Minute)
	d.completionTimeout = cmp.Or(d.completionTimeout, 1500*time.Millisecond)
	d.secondPressTime = cmp.Or(d.secondPressTime, 3*time.Second)
	return d
}
