//go:build cgo

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/docker/cagent/pkg/environment"
	"github.com/docker/cagent/pkg/tools"

	"fleet/internal/fleet"
	"fleet/internal/model/tool"
)

// newMCPServer creates the toolset of an MCP server. The host must be public, or listed in allowedHosts. env provides the variables
// to which headers and environment variables refer.
func (b *builder) newMCPServer(ctx context.Context, m fleet.MCPServer, env *secrets, allowedHosts ...string) (tools.ToolSet, error) {
	vars, err := expandAll(ctx, env, m.Env)
	if err == nil && m.Command != "" {
		return tool.MCPCommand(m.Name, m.Command, m.Args, append(b.run.environ(b.agentConfig.PassEnv), environment.ToValues(vars)...), b.workDir), nil
	}
	headers, e := expandAll(ctx, env, m.Headers)
	if err = errors.Join(err, e); err != nil {
		return nil, fmt.Errorf("MCP server %q: %s", m.Name, fleet.PublicMessage(err))
	}
	return tool.MCPRemote(m.Name, m.URL, "", headers, allowedHosts...), nil
}

// newRegisteredTools creates the toolsets for the tools that are registered for the agent.
func (b *builder) newRegisteredTools(ctx context.Context) ([]tools.ToolSet, error) {
	env := b.run.toolSecrets
	registry := &tool.Registry{}
	sets := []tools.ToolSet{registry}
	for _, t := range b.agentConfig.Tools {
		switch {
		case t.MCP != nil:
			m := t.MCP.Server
			m.Name = "" // so that the tool's name gets no prefix
			s, err := b.newMCPServer(ctx, m, env, b.agentConfig.PrivateHosts...)
			if err != nil {
				return nil, fmt.Errorf("tool %q: %w", t.Name, err)
			}
			sets = append(sets, tool.NewRenamedTool(s, cmp.Or(t.MCP.Tool, t.Name), t))
		case t.HTTP != nil:
			headers, err := expandAll(ctx, env, t.HTTP.Headers)
			if err != nil {
				return nil, fmt.Errorf("tool %q: %s", t.Name, fleet.PublicMessage(err))
			}
			registry.Add(t, tool.HTTPHandler(t.HTTP, headers, b.run.settings.MaxToolOutput, b.agentConfig.PrivateHosts...))
		case len(t.Command) > 0:
			registry.Add(t, tool.CommandHandler(t.Command, b.workDir, b.run.environ(nil), b.run.settings.MaxToolOutput))
		default:
			return nil, fmt.Errorf("tool %q has no implementation", t.Name)
		}
	}
	return sets, nil
}

// expandAll returns the map with the variables in each value expanded. It returns the first error.
func expandAll(ctx context.Context, env *secrets, values map[string]string) (map[string]string, error) {
	out := maps.Clone(values)
	for k, v := range values {
		x, err := fleet.Expand(v, func(name string) (string, bool) { return env.Get(ctx, name) })
		if err != nil {
			return nil, err
		}
		out[k] = x
	}
	return out, nil
}
