package providers

import (
	"context"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// Tool is a registered tool as a list shows it.
type Tool struct {
	*fleet.RegisteredTool
	With []string // the agents that can call it
}

// Tools returns the principal's tools in the order of their registration; with an agent, those that it can call. An agent
// that does not exist is INVALID_ARGUMENT.
func (s *Service) Tools(ctx context.Context, agent string) ([]Tool, error) {
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if agent, err = s.agentNamed(agent); err != nil {
		return nil, err
	}
	var all []*fleet.RegisteredTool
	if err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		all, err = tx.Tools(who.Name)
		return err
	}); err != nil {
		return nil, err
	}
	list := make([]Tool, 0, len(all))
	for _, t := range all {
		if with := s.callers(all, t); agent == "" || slices.Contains(with, agent) {
			list = append(list, Tool{t, with})
		}
	}
	return list, nil
}

// RemoveTool removes the principal's tool of the name, from the agent or, without one, from all. It returns the agents
// that had it: none when there was no such tool. One that all agents have takes the place of one that an agent had alone.
func (s *Service) RemoveTool(ctx context.Context, name, agent string) (from []string, err error) {
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "tool_name", "tool_name is required: see get_registered_tools")
	}
	if agent, err = s.agentNamed(agent); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		from = nil
		all, err := tx.Tools(who.Name)
		if err != nil {
			return err
		}
		for _, t := range all {
			if t.Name != name || agent != "" && t.Agent != agent {
				continue
			}
			if err := tx.DeleteTool(who.Name, t.Name, t.Agent); err != nil {
				return err
			}
			from = append(from, s.callers(all, t)...)
		}
		return nil
	})
	slices.Sort(from)
	return slices.Compact(from), err
}

// callers are the agents that call the tool: the one that it is for, or all that take tools and have none of the name of
// their own.
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

// agentNamed is the name of the agent as the table has it; empty when none is named.
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
