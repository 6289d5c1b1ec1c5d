// Package tool is the runtime of the generated *.pb.mcp.go files: it makes an MCP tool from a gRPC method. The name,
// arguments and results of a tool are generated; this package runs its calls.
//
// Generated code in gen/ and package mcp use it. It shortens a result to the configured limit (WithMaxResult), as options in
// the proto say. It must never know a particular method: the generated code passes the needs of a method as a Spec and Options.
package tool

import (
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// Tool is a tool with its handler.
type Tool struct {
	mcp.Tool
	Handler func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error)
	// Method is the full gRPC name of the method that the tool calls.
	Method string
	// Contract means that clients depend on the tool. Operator means that the tool is for people who operate Fleet.
	Contract, Operator bool
	// BriefInput is the schema without the arguments that only operators need. It is empty if there are no such arguments.
	BriefInput json.RawMessage
	// Task says which tasks a call starts; see WithStartedTasks.
	Task TaskSpec
}

// Spec describes a tool: to clients, and for the handler of its calls.
type Spec struct {
	Name, Title, Description string
	// Method, Contract, Operator and Task become the fields of the Tool.
	Method             string
	Contract, Operator bool
	Task               TaskSpec
	// Input and Output are the JSON Schemas of the arguments and of the result. They may refer to the Defs of the set.
	Input, Output string
	// BriefInput is Input without the arguments that only operators need. It is empty if there are no such arguments.
	BriefInput string
	// These are the tool's hints. No tool of Fleet has an open world: each talks only to Fleet.
	ReadOnly, Destructive, Idempotent bool
	// Portion and Cuts say how an answer that is too large is shortened.
	Portion Portion
	Cuts    []Cut
}

// handler answers a call. A failed call is an answer too, so that the calling model can read why.
type handler func(context.Context, mcp.CallToolRequest) *mcp.CallToolResult

func (s Spec) newTool(h handler) Tool {
	openWorld := false
	return Tool{
		Method: s.Method, Contract: s.Contract, Operator: s.Operator, BriefInput: json.RawMessage(s.BriefInput), Task: s.Task,
		Tool: mcp.Tool{
			Name: s.Name, Title: s.Title, Description: s.Description,
			RawInputSchema: json.RawMessage(s.Input), RawOutputSchema: json.RawMessage(s.Output),
			// All hints are set, because an unset hint means the worst case to mcp-go and to the protocol.
			Annotations: mcp.ToolAnnotation{
				Title: s.Title, ReadOnlyHint: &s.ReadOnly, DestructiveHint: &s.Destructive,
				IdempotentHint: &s.Idempotent, OpenWorldHint: &openWorld,
			},
		},
		Handler: func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			p := newProgress(ctx, r)
			defer p.keepAlive()()
			return h(context.WithValue(ctx, progressKey{}, p), r), nil
		},
	}
}

// message is a pointer to T that implements proto.Message.
type message[T any] interface {
	*T
	proto.Message
}

// Option configures how calls with requests of type PQ run.
type Option[PQ any] struct{ apply func(*options[PQ]) }

type options[PQ any] struct {
	watch    Watch
	agent    func(PQ) string
	defaults func(PQ)
}

func optionsOf[PQ any](opts []Option[PQ]) options[PQ] {
	var o options[PQ]
	for _, opt := range opts {
		opt.apply(&o)
	}
	return o
}

// Progress makes a call report events as its progress: the events of the agent that the request names.
func Progress[PQ any](watch Watch, agent func(PQ) string) Option[PQ] {
	return Option[PQ]{func(o *options[PQ]) { o.watch, o.agent = watch, agent }}
}

// Defaults fills in fields that a call of the tool leaves out. Calls of the method through other faces do not get these values.
func Defaults[PQ any](fill func(PQ)) Option[PQ] {
	return Option[PQ]{func(o *options[PQ]) { o.defaults = fill }}
}

// Default sets an optional field to the value if it is not set.
func Default[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// DefaultText sets a text to the value if it is empty.
func DefaultText(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// decode reads the arguments of a call into its request message.
func decode[PQ proto.Message](r mcp.CallToolRequest, q PQ, o options[PQ]) error {
	arguments := []byte(r.Params.RawArguments)
	if len(arguments) == 0 && r.Params.Arguments != nil { // a Go caller has set the arguments, so they are not JSON yet
		var err error
		if arguments, err = json.Marshal(r.Params.Arguments); err != nil {
			return wire.Invalid(wire.ReasonInvalidArgument, "", "the arguments are not JSON: %s", err)
		}
	}
	if err := wire.Unmarshal(arguments, q); err != nil {
		return err
	}
	if o.defaults != nil {
		o.defaults(q)
	}
	return nil
}
