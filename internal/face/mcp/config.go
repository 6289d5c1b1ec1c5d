// Package mcp is the MCP face of Fleet: the tools that are generated from the API, over streamable HTTP and over stdio.
// It uses only the API, through a gRPC connection, and has no rules of its own.
//
// Package app serves it beside REST, and on standard input and output for `fleet mcp`. It calls the gRPC services
// through an in-process connection and runs tools with package tool. It must never import the core. Outside tests,
// only this package and package tool import mcp-go.
package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"
)

// MinMaxResult is the smallest allowed Config.MaxResult. A smaller result could not hold an error that says what to do.
const MinMaxResult = 4 << 10

// Config holds the settings of the face. The zero value works.
type Config struct {
	// Version is the server version that clients see; "dev" if empty.
	Version string
	// Toolset is the toolset that Stdio serves, or "all"; empty means "fleet". Over HTTP the path names it.
	Toolset string
	// Tools selects the tools of the fleet toolset that are served: names, or patterns of names with *. The tools of the contract are
	// always included. If Tools is empty, all tools are included except those for operators.
	Tools []string
	// MaxBody is the largest accepted message in bytes; 0 means 16 MiB.
	MaxBody int64
	// Identify identifies the sender of a message from its Authorization headers, before the message is read. Calls are
	// made with the returned context, even if Identify fails because the sender is unknown. The returned name separates
	// the sessions of different callers. If Identify is nil, all requests have the same caller.
	Identify func(ctx context.Context, authorization []string) (_ context.Context, caller string, err error)
	// Challenge returns the header WWW-Authenticate that tells an unknown sender where to sign in. The sender gets it with
	// status 401, so that its client signs in. If Challenge is nil, the sender may initialize and list the tools.
	Challenge func(r *http.Request) string
	// Rights returns a function that reports whether the caller may call the method with the full gRPC name. The server
	// does not list the tools of other methods, and refuses calls of these tools. The caller is the one that Identify
	// found or, for Stdio, the caller that the connection belongs to. If Rights is nil, every tool is listed.
	Rights func(ctx context.Context) (mayCall func(method string) bool)
	// CheckLimits returns an error if the caller that Identify found has sent too many messages. Calls with its context fail with
	// the same error. If CheckLimits is nil, messages are not counted.
	CheckLimits func(ctx context.Context) error
	// TakeSlot waits until the server may work on a request of the caller that Identify found. release is called after the
	// work, once or more. Calls of tools and requests for prompts and resources do not use TakeSlot: they wait as calls of the
	// API. If TakeSlot is nil, requests do not wait.
	TakeSlot func(ctx context.Context) (release func(), err error)
	// MaxResult is the largest text of a tool's result in bytes; 0 means tool.DefaultMaxResult. The options of the
	// method in the proto say how a longer answer is cut.
	MaxResult int
	// SessionKey is a secret with which all servers on a store sign the ids of sessions, so that they accept each other's ids. If
	// it is nil, a session is known only to the process that has begun it.
	SessionKey []byte
	// WriteTimeout is how long a client may take to accept a progress notification; 0 means 30 seconds.
	WriteTimeout time.Duration
	// MaxSilence is how long a call with progress may send nothing before Fleet reports that it is at work; 0 means
	// tool.DefaultMaxSilence.
	MaxSilence time.Duration
	// DrainTimeout is how long Stdio waits until the client has read the progress of a call, before it sends the result; 0 means one
	// second.
	DrainTimeout time.Duration
	// Log receives transport errors; nil logs nothing.
	Log *slog.Logger
}

const defaultToolset = "fleet"

func (c Config) withDefaults() Config {
	c.Version, c.Toolset = cmp.Or(c.Version, "dev"), cmp.Or(c.Toolset, defaultToolset)
	c.MaxBody = cmp.Or(c.MaxBody, 16<<20)
	c.WriteTimeout, c.DrainTimeout = cmp.Or(c.WriteTimeout, 30*time.Second), cmp.Or(c.DrainTimeout, time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Identify == nil {
		c.Identify = func(ctx context.Context, _ []string) (context.Context, string, error) { return ctx, "", nil }
	}
	if c.Rights == nil {
		c.Rights = func(context.Context) func(string) bool { return func(string) bool { return true } }
	}
	if c.TakeSlot == nil {
		c.TakeSlot = func(context.Context) (func(), error) { return func() {}, nil }
	}
	if c.CheckLimits == nil {
		c.CheckLimits = func(context.Context) error { return nil }
	}
	return c
}
