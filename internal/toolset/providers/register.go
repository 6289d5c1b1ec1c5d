package providers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// RegisterRequest is a request to register a tool for one agent or for all agents.
type RegisterRequest struct {
	Name      string
	Spec      json.RawMessage // a JSON object
	Agent     string          // empty means every agent that takes tools
	RequestID string
}

// Registration is the answer to a RegisterRequest.
type Registration struct {
	Agents   []string // the agents that the tool is registered for; some may have a tool with this name of their own
	Warnings []string // for example that a tool was replaced
}

// Register stores the tool for the principal's own requests. It replaces a tool with the same name for the same agents.
// It returns INVALID_ARGUMENT if the specification is invalid, or if the agent does not exist or takes no tools. It
// returns PERMISSION_DENIED if only an admin may register the tool, and LIMIT_REACHED if the principal has too many
// tools.
func (s *Service) Register(ctx context.Context, r RegisterRequest) (*Registration, error) {
	who, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := service.CheckRequestID(r.RequestID); err != nil {
		return nil, err
	}
	tool, err := parseTool(r.Name, r.Spec)
	if err != nil {
		return nil, err
	}
	if err := s.checkVariables(&tool); err != nil {
		return nil, err
	}
	if err := s.checkAllowed(who, &tool); err != nil {
		return nil, err
	}
	agents, agent, err := s.agentsFor(r.Agent)
	if err != nil {
		return nil, err
	}
	out := &Registration{Agents: agents}
	for _, v := range variablesOf(&tool) {
		if s.cfg.Getenv(v) == "" {
			out.Warnings = append(out.Warnings, fmt.Sprintf("The variable %s is not set in the server's environment: the tool fails until it is set", v))
		}
	}
	previous, err := s.core.RegisterTool(ctx, service.Call{
		Method: "RegisterToolWithAgent", RequestID: r.RequestID, Body: []any{r.Name, agent, tool},
	}, tool, agent, s.cfg.MaxTools)
	if err != nil {
		return nil, err
	}
	out.Warnings = append(sameNameWarnings(previous, r.Name, agent), out.Warnings...)
	return out, nil
}

// agentsFor returns the agents that get a tool that is registered for the named agent, and the agent's name as the table
// writes it. If name is empty, it returns all agents that take tools, and "". agentsFor returns INVALID_ARGUMENT if the
// agent does not exist or takes no tools.
func (s *Service) agentsFor(name string) (agents []string, agent string, err error) {
	toolAgents := s.names((*Provider).TakesTools)
	if name == "" {
		return toolAgents, "", nil
	}
	p := s.find(name)
	switch {
	case p == nil:
		return nil, "", fleet.InvalidField("agent_name", "there is no agent %q: tools can be registered with %s", shorten(name), strings.Join(toolAgents, ", "))
	case p.Kind == KindCLI:
		return nil, "", fleet.InvalidField("agent_name", "the agent %q is a program with its own tools: tools can be registered with %s", p.Name, strings.Join(toolAgents, ", "))
	case !p.TakesTools():
		return nil, "", fleet.InvalidField("agent_name", "the agent %q calls no tools: tools can be registered with %s", p.Name, strings.Join(toolAgents, ", "))
	}
	return []string{p.Name}, p.Name, nil
}

// sameNameWarnings returns warnings about a tool that was replaced, and about tools with the same name that stay registered
// for other agents. previous has the tools from before the registration.
func sameNameWarnings(previous []*fleet.RegisteredTool, name, agent string) (warnings []string) {
	if slices.ContainsFunc(previous, func(t *fleet.RegisteredTool) bool { return t.Name == name && t.Agent == agent }) {
		warnings = append(warnings, replacedWarning(name, agent))
	}
	for _, t := range previous {
		switch {
		case t.Name != name || t.Agent == agent:
		case agent == "":
			warnings = append(warnings, fmt.Sprintf("The agent %q has its own tool %q, and keeps that tool", t.Agent, name))
		case t.Agent == "":
			warnings = append(warnings, fmt.Sprintf("There is also a tool %q for all agents: the agent %q uses this tool instead", name, agent))
		}
	}
	return warnings
}

// replacedWarning returns the warning that an existing tool was replaced.
func replacedWarning(name, agent string) string {
	if agent == "" {
		return fmt.Sprintf("The tool %q existed already and was replaced", name)
	}
	return fmt.Sprintf("The tool %q of the agent %q existed already and was replaced", name, agent)
}
