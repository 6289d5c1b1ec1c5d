// Package tool is what the generated *.pb.mcp.go files call: it makes an MCP tool of a gRPC method. What a tool is
// called, what it takes and what it answers is generated; how a call runs is here.
package tool

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/wire"
)

// Tool is a tool with its handler.
type Tool = server.ServerTool

// Set is the tools of one service.
type Set struct {
	Name  string
	Tools []Tool
	// ForAgents are the names of the tools that an agent may call with a token of its own.
	ForAgents []string
}

// Spec is what clients are told about a tool.
type Spec struct {
	Name, Title, Description string
	// Input and Output are the JSON Schemas of the arguments and of the result.
	Input, Output string
	// The hints. No tool of Fleet reaches an open world: it talks to Fleet alone.
	ReadOnly, Destructive, Idempotent bool
	// How an answer that is too large is made to fit.
	Portion Portion
	Cuts    []Cut
}

// handler answers a call. A call that fails is an answer too, so that the model that made it can read why.
type handler func(context.Context, mcp.CallToolRequest) *mcp.CallToolResult

func (s Spec) with(h handler) Tool {
	openWorld := false
	return Tool{
		Tool: mcp.Tool{
			Name: s.Name, Title: s.Title, Description: s.Description,
			RawInputSchema: compact(s.Input), RawOutputSchema: compact(s.Output),
			// All hints are set, because mcp-go and the protocol take what is not set for the worst.
			Annotations: mcp.ToolAnnotation{
				Title: s.Title, ReadOnlyHint: &s.ReadOnly, DestructiveHint: &s.Destructive,
				IdempotentHint: &s.Idempotent, OpenWorldHint: &openWorld,
			},
		},
		Handler: func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			p := newProgress(ctx, r)
			defer p.reassure()()
			return h(context.WithValue(ctx, progressKey{}, p), r), nil
		},
	}
}

// compact takes the spaces out of a schema once, and not for every list of tools.
func compact(schema string) json.RawMessage {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(schema)); err != nil {
		return json.RawMessage(schema)
	}
	return b.Bytes()
}

// message is a pointer to T that is a proto message.
type message[T any] interface {
	*T
	proto.Message
}

// Option says more about how the calls with requests of type PQ run.
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

// Progress makes the events of an agent the progress of a call: of the agent whose name the request has.
func Progress[PQ any](watch Watch, agent func(PQ) string) Option[PQ] {
	return Option[PQ]{func(o *options[PQ]) { o.watch, o.agent = watch, agent }}
}

// Defaults fills in what a tool call did not give, and what a gRPC caller would have to decide.
func Defaults[PQ any](fill func(PQ)) Option[PQ] {
	return Option[PQ]{func(o *options[PQ]) { o.defaults = fill }}
}

// Default sets an optional field that is not given.
func Default[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

// DefaultText sets a text that is not given.
func DefaultText(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// decode reads the arguments of a call into its request.
func decode[PQ proto.Message](r mcp.CallToolRequest, q PQ, o options[PQ]) error {
	arguments := []byte(r.Params.RawArguments)
	if len(arguments) == 0 && r.Params.Arguments != nil { // a call that never was JSON
		var err error
		if arguments, err = json.Marshal(r.Params.Arguments); err != nil {
			return wire.Invalid("INVALID_ARGUMENT", "", "The arguments are not JSON: %s.", err)
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
