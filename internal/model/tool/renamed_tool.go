//go:build cgo

package tool

import (
	"context"
	"fmt"

	"github.com/docker/cagent/pkg/teamloader"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
)

// renamedTool is one tool of an MCP server under its registered name.
type renamedTool struct {
	tools.ToolSet
	remote     string // the server's name of the tool
	registered fleet.Tool
}

// NewRenamedTool returns a toolset with only one tool of the MCP server s, under the name of the registered tool. remote is the
// server's name of the tool.
func NewRenamedTool(s tools.ToolSet, remote string, registered fleet.Tool) tools.ToolSet {
	return &renamedTool{teamloader.WithToolsFilter(s, remote), remote, registered}
}

// Tools implements tools.ToolSet.
func (r *renamedTool) Tools(ctx context.Context) ([]tools.Tool, error) {
	all, err := r.ToolSet.Tools(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the MCP server has no tool %q", r.remote)
	}
	t := all[0]
	t.Name = r.registered.Name
	if r.registered.Description != "" {
		t.Description = r.registered.Description
	}
	t.Handler = checkArguments(t.Parameters, t.Handler)
	return []tools.Tool{t}, nil
}
