//go:build cgo

package tool

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/schema"
)

// Registry is a toolset of tools that are added one by one. The zero value has no tools.
type Registry struct {
	tools.BaseToolSet
	all []tools.Tool
}

// Add adds a tool. The handler gets only arguments that match the tool's parameters. A tool without parameters accepts any
// object.
func (r *Registry) Add(t fleet.Tool, h tools.ToolHandler) {
	var parameters any
	if json.Unmarshal(t.Parameters, &parameters) != nil || parameters == nil {
		parameters = map[string]any{"type": "object", "properties": map[string]any{}}
	}
	r.all = append(r.all, tools.Tool{Name: t.Name, Description: t.Description, Parameters: parameters, Handler: checkArguments(parameters, h)})
}

// checkArguments returns a handler that calls h only with arguments that match the parameters. It returns h itself if the
// parameters are not a valid schema.
func checkArguments(parameters any, h tools.ToolHandler) tools.ToolHandler {
	text, err := json.Marshal(parameters)
	if err != nil {
		return h
	}
	s, err := schema.Compile(text)
	if err != nil {
		return h // a tool of an MCP server; parameters of other tools are checked when the tools are registered
	}
	return func(ctx context.Context, c tools.ToolCall) (*tools.ToolCallResult, error) {
		if problems := s.Check(json.RawMessage(c.Function.Arguments)); problems != nil {
			return tools.ResultError("The arguments do not match the tool's parameters: " + strings.Join(problems, "; ")), nil
		}
		return h(ctx, c)
	}
}

// Tools implements tools.ToolSet.
func (r *Registry) Tools(context.Context) ([]tools.Tool, error) { return slices.Clone(r.all), nil }
