package providers

import (
	"context"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// Tool is a registered tool as listed.
type Tool struct {
	*fleet.RegisteredTool
	With []string // the agents that can call it
}

// Tools returns the principal's tools in the order of their registration; if an agent is named, only those that it can
// call. An agent that does not exist is INVALID_ARGUMENT.
func (s *Service) Tools(ctx context.Context, agent string) (list []Tool, err error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	agent, err = s.agentNamed(agent)
	if err != nil {
		return nil, err
	}
	all, err := s.core.Tools(ctx)
	if err != nil {
		return nil, err
	}
	list = make([]Tool, 0, len(all))
	for _, t := range all {
		if with := s.callers(all, t); agent == "" || slices.Contains(with, agent) {
			list = append(list, Tool{t, with})
		}
	}
	return list, nil
}

// RemoveTool removes the principal's tool with the name from the agent, or from all if no agent is named. It returns
// the agents that had the tool. After a tool for one agent is removed, a tool with that name for all agents takes its
// place.
func (s *Service) RemoveTool(ctx context.Context, name, agent string) (from []string, err error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "tool_name", "tool_name is required").Next("{get_registered_tools} shows the tools")
	}
	agent, err = s.agentNamed(agent)
	if err != nil {
		return nil, err
	}
	removed, before, err := s.core.RemoveTools(ctx, name, agent)
	for _, t := range removed {
		from = append(from, s.callers(before, t)...)
	}
	slices.Sort(from)
	return slices.Compact(from), err
}

// callers returns the agents that can call the tool: the one that it is for, or all that take tools and have no other
// tool with that name.
func (s *Service) callers(all []*fleet.RegisteredTool, t *fleet.RegisteredTool) []string {
	return s.names(func(p *Provider) bool {
		switch {
		case !p.TakesTools():
			return false
		case t.Agent != "":
			return t.Agent == p.Name
		}
		return !slices.ContainsFunc(all, func(o *fleet.RegisteredTool) bool { return o.Name == t.Name && o.Agent == p.Name })
	})
}

// agentNamed returns the agent's name as the table writes it; empty if no agent is named.
func (s *Service) agentNamed(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	p := s.find(name)
	if p == nil {
		return "", fleet.Invalid(fleet.ReasonInvalidArgument, "agent_name", "there is no agent %q: there are %s", show(name), strings.Join(s.names(every), ", "))
	}
	return p.Name, nil
}
