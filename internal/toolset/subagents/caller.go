package subagents

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// caller is the caller of a subagent. It is derived from the call's token, and from nothing in the request.
type caller struct {
	// name is the name of the principal or, for an agent, of its definition; empty for an agent without a definition.
	name  string
	agent bool
	uid   string   // of the agent
	calls []string // the subagents that the agent may run
	depth int      // how many agents are above one that it runs
	// owner is the principal responsible for the caller. Subagents belong to it, and so do those that they run.
	owner fleet.Principal
}

// callerFrom returns the caller of the context.
func (s *Service) callerFrom(ctx context.Context) (caller, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return caller{}, err
	}
	if p.AgentUID == "" {
		return caller{name: p.Name, agent: p.Kind == fleet.AgentKind, owner: p}, nil
	}
	a, err := s.fleet.AgentByUID(ctx, p.AgentUID)
	if err != nil {
		return caller{}, err
	}
	c := caller{agent: true, uid: p.AgentUID, owner: s.fleet.Delegate(a)}
	if a.Config != nil && a.Config.Name != "" {
		c.name, c.calls, c.depth = a.Config.Name, a.Config.Calls, a.Config.Depth+1
	}
	return c, nil
}

// may reports whether the caller may run the subagent: its definition must allow the caller, and the caller's own
// definition, if it has one, must list the subagent.
func (s *Service) may(c caller, d *Definition) bool {
	return d.allows(c) && (c.uid == "" || slices.Contains(c.calls, d.Name)) && c.depth < s.cfg.MaxDepth
}

// refused returns the error for a caller that may not run the subagent.
func (s *Service) refused(c caller, d *Definition) error {
	who := "you"
	if c.agent {
		who = "the agent " + c.name
	}
	why := "its definition allows others"
	switch {
	case !d.allows(c):
	case c.depth >= s.cfg.MaxDepth:
		why = "too many subagents stand above it already"
	default:
		why = "subagents run no others but those that their own definition names under calls"
	}
	return fleet.Errorf(fleet.ReasonPermissionDenied, "%s may not run the subagent %q: %s", who, d.Name, why).With("agent_name", d.Name)
}
