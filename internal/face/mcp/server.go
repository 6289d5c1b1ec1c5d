package mcp

import (
	"context"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/grpc"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/gen/fleet/v1/fleetv1mcp"
	"fleet/internal/face/mcp/tool"
)

// allToolset is the name of the toolset that has every tool with a unique name.
const allToolset = "all"

// toolsets returns the toolset of each service that has one, and allToolset.
func toolsets(conn grpc.ClientConnInterface) []tool.Set {
	sets := []tool.Set{
		fleetv1mcp.FleetServiceToolset(conn),
		fleetv1mcp.LifecycleServiceToolset(conn),
		fleetv1mcp.ProviderServiceToolset(conn),
		fleetv1mcp.SessionServiceToolset(conn),
		fleetv1mcp.SubagentServiceToolset(conn),
	}
	count := map[string]int{}
	for _, s := range sets {
		for _, t := range s.Tools {
			count[t.Name]++
		}
	}
	all := tool.Set{Name: allToolset}
	for _, s := range sets {
		for _, t := range s.Tools {
			if count[t.Name] == 1 {
				all.Tools = append(all.Tools, t)
			}
		}
	}
	return append(sets, all)
}

// joinNames lists the names of the toolsets for people.
func joinNames(sets []tool.Set) string {
	var n []string
	for _, s := range sets {
		n = append(n, s.Name)
	}
	slices.Sort(n)
	return strings.Join(n, ", ")
}

// newServer returns the MCP server of a toolset. It announces that its tools do not change while it runs.
func newServer(conn grpc.ClientConnInterface, set tool.Set, t tasks, c Config) *server.MCPServer {
	tools, methods := make([]server.ServerTool, len(set.Tools)), map[string]string{}
	for i, x := range set.Tools {
		tools[i], methods[x.Name] = server.ServerTool{Tool: x.Tool, Handler: t.handler(x)}, x.Method
	}
	// This is a hook because a filter of mcp-go would answer a call of a hidden tool with a protocol error.
	hooks := &server.Hooks{}
	hooks.AddAfterListTools(func(ctx context.Context, _ any, _ *mcp.ListToolsRequest, r *mcp.ListToolsResult) {
		mayCall := c.Rights(ctx)
		r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t mcp.Tool) bool { return !mayCall(methods[t.Name]) })
	})
	// Clients of older revisions cannot use the extension for tasks, so the server does not announce it to them. They cannot subscribe to
	// resources either, because no session is kept.
	hooks.AddAfterDiscover(func(_ context.Context, _ any, _ *mcp.DiscoverRequest, r *mcp.DiscoverResult) {
		if r.Capabilities.Resources != nil {
			r.Capabilities.Resources.Subscribe = true
		}
		r.Capabilities.Extensions = map[string]any{tasksExtension: map[string]any{}}
	})
	options := []server.ServerOption{
		server.WithTitle("Fleet"),
		server.WithDescription("Creates AI coding agents, hands them tasks, follows them and keeps their history."),
		server.WithInstructions(instructionsOf(set.Name)),
		server.WithToolCapabilities(false),
		server.WithHooks(hooks),
	}
	ofFleet := set.Name == defaultToolset || set.Name == allToolset
	if ofFleet {
		options = append(options, server.WithPromptCapabilities(false), server.WithResourceCapabilities(false, false))
	}
	s := server.NewMCPServer("fleet", c.Version, options...)
	s.AddTools(tools...)
	if ofFleet {
		r := resources{fleetv1.NewFleetServiceClient(conn), c.Rights}
		r.add(s)
		hooks.AddAfterListResources(r.addToList)
		addPrompts(s, conn)
	}
	return s
}
