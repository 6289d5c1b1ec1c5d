// Package mcp is the MCP face of Fleet: the tools that are generated from the API, over streamable HTTP and over
// standard input and output. It speaks the API only, through a gRPC connection, and decides nothing.
package mcp

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/face/mcp/tool"
)

// MinMaxResult is the least Config.MaxResult: less than that would not hold an error that says what to do.
const MinMaxResult = 4 << 10

// Config says how the face is served. Its zero value works.
type Config struct {
	// Version is what clients are told of the server; "dev" when empty.
	Version string
	// Toolset is what Stdio serves: the name of a toolset, or "all"; "fleet" when empty. Over HTTP the path says it.
	Toolset string
	// Hosts are the names, without port, that a request may give as its Host, besides those of this machine's own
	// loopback. Any other is refused, so that a web page cannot reach the server by rebinding its own name.
	Hosts []string
	// Origins are the web origins, as "https://console.example.com", whose pages may call, besides the server's own.
	Origins []string
	// MaxBody is the size of a message in bytes above which it is refused; 16 MiB when 0.
	MaxBody int64
	// Identify finds out who sends a message, by the values of its Authorization header, before the message is read. Calls
	// are made with the context that it returns, also when there is an error, which is that nobody knows who it is. Each
	// caller has sessions of its own, by the name that is returned. Nil: all are one caller.
	Identify func(ctx context.Context, authorization []string) (_ context.Context, caller string, err error)
	// IsAgent says whether the caller that Identify found is an agent with a token of its own. It is shown only the tools
	// that are for agents; a call of another one is the server's to refuse. Nil: no caller is.
	IsAgent func(ctx context.Context) bool
	// MaxResult is how many bytes of text the result of a tool has at most; tool.DefaultMaxResult when 0. A longer answer
	// is cut as its method's options in the proto say.
	MaxResult int
	// SessionTTL is how long a session lives without a request; 24 hours when 0.
	SessionTTL time.Duration
	// WriteTimeout is how long a client may take to accept a piece of progress; 30 seconds when 0.
	WriteTimeout time.Duration
	// Log gets what goes wrong between here and the client; nothing is logged when nil.
	Log *slog.Logger
	// Now tells the time; time.Now when nil.
	Now func() time.Time
}

const defaultToolset = "fleet"

func (c Config) withDefaults() Config {
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Toolset == "" {
		c.Toolset = defaultToolset
	}
	if c.MaxBody <= 0 {
		c.MaxBody = 16 << 20
	}
	if c.MaxResult <= 0 {
		c.MaxResult = tool.DefaultMaxResult
	}
	if c.SessionTTL <= 0 {
		c.SessionTTL = 24 * time.Hour
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = 30 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Identify == nil {
		c.Identify = func(ctx context.Context, _ []string) (context.Context, string, error) { return ctx, "", nil }
	}
	if c.IsAgent == nil {
		c.IsAgent = func(context.Context) bool { return false }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
