package cli

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
)

// Target says which server a command talks to, and as whom.
type Target struct {
	// Server is HOST:PORT of the gRPC listener.
	Server string
	// Token is the secret that identifies the caller; empty when none was given.
	Token string
	// Insecure asks for no TLS, also when Server is not on this machine.
	Insecure bool
	// Embedded asks for an instance in this process instead of Server, on the data in Data.
	Embedded bool
	// Data is the directory of the embedded instance; empty means the default one.
	Data string
}

// Dialer connects to a target. The function it returns closes the connection and, of an embedded instance, waits for
// its end.
type Dialer func(ctx context.Context, t Target) (grpc.ClientConnInterface, func() error, error)

// Deps is what the command line gets from outside. The zero value is the real world, without an embedded instance.
type Deps struct {
	// Version is what "fleet version" prints.
	Version string
	// Stdin, Stdout and Stderr are those of the process when nil.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Dial connects to the server; DialNetwork when nil.
	Dial Dialer
	// Getenv reads the environment; os.Getenv when nil.
	Getenv func(string) string
	// Now tells the time; time.Now when nil.
	Now func() time.Time
	// NewID makes request ids; random UUIDs when nil.
	NewID func() string
	// Signals delivers interrupts; when nil, Run listens for SIGINT and SIGTERM itself.
	Signals <-chan os.Signal

	// patience is how long a connection that once worked may stay broken before a command gives up.
	patience time.Duration
	// secondPress is how long the first Ctrl-C waits for a second one.
	secondPress time.Duration
}

func (d Deps) withDefaults() Deps {
	if d.Version == "" {
		d.Version = "devel"
	}
	if d.Stdin == nil {
		d.Stdin = os.Stdin
	}
	if d.Stdout == nil {
		d.Stdout = os.Stdout
	}
	if d.Stderr == nil {
		d.Stderr = os.Stderr
	}
	if d.Dial == nil {
		d.Dial = DialNetwork
	}
	if d.Getenv == nil {
		d.Getenv = os.Getenv
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.NewID == nil {
		d.NewID = uuid.NewString
	}
	if d.patience == 0 {
		d.patience = 2 * time.Minute
	}
	if d.secondPress == 0 {
		d.secondPress = 3 * time.Second
	}
	return d
}
