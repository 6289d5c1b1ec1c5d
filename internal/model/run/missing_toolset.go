//go:build cgo

package run

import (
	"context"

	"github.com/docker/cagent/pkg/tools"
)

// missingToolset replaces a toolset that could not be created, for example because the definition of its MCP server could not
// be fetched. The agent works without the tools of that toolset.
type missingToolset struct {
	tools.BaseToolSet
	err error
}

// Start implements tools.ToolSet.
func (m *missingToolset) Start(context.Context) error { return m.err }

// Tools implements tools.ToolSet.
func (m *missingToolset) Tools(context.Context) ([]tools.Tool, error) { return nil, m.err }
