package providers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// Tool is a registered tool with the agents that can call it.
type Tool struct {
	*fleet.RegisteredTool
	Agents []string
}

// Tools returns the principal's tools in the order of their registration. If agent is not empty, it returns only the
// tools that this agent can call. It returns INVALID_ARGUMENT if the agent does not exist.
func (s *Service) Tools(ctx context.Context, agent string) (list []Tool, err error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	agent, err = s.canonicalName(agent)
	if err != nil {
		return nil, err
	}
	all, err := s.core.Tools(ctx)
	if err != nil {
		return nil, err
	}
	list = make([]Tool, 0, len(all))
	for _, t := range all {
		if agents := s.agentsWithTool(t, all); agent == "" || slices.Contains(agents, agent) {
			list = append(list, Tool{t, agents})
		}
	}
	return list, nil
}

// RemoveTool removes the principal's tool with the name that is registered for the agent. If agent is empty, it removes
// every tool with the name. It returns the agents that had the tool. After a tool for one agent is removed, this agent
// can call the tool with the same name for all agents, if there is one.
func (s *Service) RemoveTool(ctx context.Context, name, agent string) (agents []string, err error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fleet.InvalidField("tool_name", "tool_name is required").Next("{get_registered_tools} shows the tools")
	}
	agent, err = s.canonicalName(agent)
	if err != nil {
		return nil, err
	}
	removed, before, err := s.core.RemoveTools(ctx, name, agent)
	for _, t := range removed {
		agents = append(agents, s.agentsWithTool(t, before)...)
	}
	slices.Sort(agents)
	return slices.Compact(agents), err
}

// agentsWithTool returns the agents that can call the tool. all has all tools of the principal.
func (s *Service) agentsWithTool(t *fleet.RegisteredTool, all []*fleet.RegisteredTool) []string {
	return s.names(func(p *Provider) bool { return p.canCall(t, all) })
}

// toolsFor returns the principal's tools that the provider can call. If the principal may no longer use a tool, toolsFor
// omits it and returns a warning.
func (s *Service) toolsFor(ctx context.Context, who fleet.Principal, p *Provider) (tools []fleet.Tool, warnings []string, err error) {
	if !p.TakesTools() {
		return nil, nil, nil
	}
	all, err := s.core.Tools(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, t := range all {
		if !p.canCall(t, all) {
			continue
		}
		if err := s.checkAllowed(who, &t.Tool); err != nil {
			warnings = append(warnings, fmt.Sprintf("The tool %q is left out: %s", t.Name, fleet.PublicMessage(err)))
			continue
		}
		tools = append(tools, t.Tool)
	}
	return tools, warnings, nil
}

// canCall reports whether the provider can call the tool. A tool for one agent can be called by this agent only. A tool for
// all agents can be called by every agent that takes tools and has no tool with this name of its own.
func (p *Provider) canCall(t *fleet.RegisteredTool, all []*fleet.RegisteredTool) bool {
	switch {
	case !p.TakesTools():
		return false
	case t.Agent != "":
		return t.Agent == p.Name
	}
	return !slices.ContainsFunc(all, func(o *fleet.RegisteredTool) bool { return o.Name == t.Name && o.Agent == p.Name })
}

// canonicalName returns the agent's name as the table writes it, or "" if name is empty. It returns an error if there is
// no such agent.
func (s *Service) canonicalName(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	p := s.find(name)
	if p == nil {
		return "", fleet.InvalidField("agent_name", "there is no agent %q: there are %s", shorten(name), strings.Join(s.names(anyProvider), ", "))
	}
	return p.Name, nil
}
