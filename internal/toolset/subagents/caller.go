package subagents

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// caller is the caller of a subagent. It is derived only from the call's token, never from the request.
type caller struct {
	// name is the principal's name. For an agent of this server, it is the name of the agent's definition instead, or empty if
	// the agent has no definition.
	name          string
	isAgent       bool     // the caller is an agent, of this or another server
	uid           string   // the agent's UID; empty if the caller is not an agent of this server
	subagents     []string // the names of the subagents that the agent may run
	subagentDepth int      // how many agents stand above a subagent that the caller runs
	// owner is the principal responsible for the caller. It owns all subagents that the caller runs, directly or through
	// other subagents.
	owner fleet.Principal
}

// callerFrom returns the caller for the principal in the context.
func (s *Service) callerFrom(ctx context.Context) (caller, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return caller{}, err
	}
	if p.AgentUID == "" {
		return caller{name: p.Name, isAgent: p.Kind == fleet.KindAgent, owner: p}, nil
	}
	a, err := s.core.AgentByUID(ctx, p.AgentUID)
	if err != nil {
		return caller{}, err
	}
	c := caller{isAgent: true, uid: p.AgentUID, owner: s.core.PrincipalOfAgent(a)}
	c.owner.TaskID = p.TaskID // its subagents are in the tree of its task
	if a.Config != nil && a.Config.Name != "" {
		c.name, c.subagents, c.subagentDepth = a.Config.Name, a.Config.Subagents, a.Config.Depth+1
	}
	return c, nil
}

// mayRun reports whether the caller may run the subagent.
func (s *Service) mayRun(c caller, d *Definition) bool { return s.refusalReason(c, d) == "" }

// refusalReason returns why the caller may not run the subagent, or "" if it may. The subagent's definition must allow the caller.
// If the caller is an agent, its own definition must list the subagent, and the subagent must not be nested too deeply.
func (s *Service) refusalReason(c caller, d *Definition) string {
	switch {
	case !d.allows(c):
		return "its definition does not allow this caller"
	case c.subagentDepth >= s.config.MaxDepth:
		return "too many subagents stand above it already"
	case c.uid != "" && !slices.Contains(c.subagents, d.Name):
		return "a subagent may run only the subagents that its own definition names under calls"
	}
	return ""
}

// refusalError returns the error for a caller that may not run the subagent.
func (s *Service) refusalError(c caller, d *Definition) error {
	who := "you"
	switch {
	case c.isAgent && c.name == "":
		who = "this agent"
	case c.isAgent:
		who = "the agent " + c.name
	}
	return fleet.Errorf(fleet.ReasonPermissionDenied, "%s may not run the subagent %q: %s", who, d.Name, s.refusalReason(c, d)).With("agent_name", d.Name)
}
