package sessions

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// foundAgent is the definition or the agent of the fleet that a caller has named. Exactly one of definition and agent is set.
type foundAgent struct {
	definition *fleet.Definition
	agent      *fleet.AgentView
	source     fleet.DefinitionSource
}

// maxReference is the maximum length of a name of an agent, in characters. A name can be the reference of an artifact.
const maxReference = 512

// findAgent returns the definition or the agent with the name. It returns AGENT_NOT_FOUND if there is none. It looks first for a
// definition in a file, then for an agent of the fleet, then for a pulled artifact. In this order, nobody can hide the
// operator's definitions or the caller's own agents by pulling an artifact. A name that isPath accepts can only be a file.
func (s *Service) findAgent(ctx context.Context, name string) (foundAgent, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return foundAgent{}, fleet.InvalidField("agent", "the agent is empty").Next("{list_agents} shows the agents")
	case utf8.RuneCountInString(name) > maxReference || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return foundAgent{}, fleet.InvalidField("agent", "the agent %q is not a valid file name, reference or name", fleet.Shorten(strings.ToValidUTF8(name, "?"), 60))
	}
	d, err := s.catalog.File(ctx, name)
	if err == nil {
		return foundAgent{definition: &d, source: fleet.DefinitionFiles}, nil
	}
	if fleet.ReasonOf(err) != fleet.ReasonAgentNotFound || isPath(name) {
		return foundAgent{}, err
	}
	if agent, _, _ := strings.Cut(name, "@"); strings.ContainsAny(agent, "/:") { // no agent has such a name, and its place may not answer
		return s.findArtifact(ctx, name)
	}
	if v, err := s.core.ShowAgent(ctx, name); err == nil {
		if p, err := fleet.PrincipalFrom(ctx); err != nil || p.OwnsAll(v.Owner) { // a shared agent accepts tasks, but no conversations
			return foundAgent{agent: v, source: fleet.DefinitionFleet}, err
		}
	} else if e, ok := errors.AsType[*fleet.Error](err); !ok || e.Code != fleet.NotFound && e.Code != fleet.InvalidArgument {
		return foundAgent{}, err
	}
	return s.findArtifact(ctx, name)
}

// findArtifact returns the definition of the pulled artifact with the name. It returns AGENT_NOT_FOUND if there is none.
func (s *Service) findArtifact(ctx context.Context, name string) (foundAgent, error) {
	d, err := s.catalog.Artifact(ctx, name)
	if fleet.ReasonOf(err) == fleet.ReasonAgentNotFound {
		err = fleet.Errorf(fleet.ReasonAgentNotFound,
			"there is no agent %q: no file in the agents directory, no pulled agent and no agent of the fleet has this name",
			fleet.Shorten(name, 200)).Next("{list_agents} shows the agents").With("agent", fleet.Shorten(name, 200))
	}
	if err != nil {
		return foundAgent{}, err
	}
	return foundAgent{definition: &d, source: fleet.DefinitionStore}, nil
}

// isPath reports whether the name can only be a file.
func isPath(name string) bool {
	for _, prefix := range []string{"./", "../", "/", "~"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Warnings returns warnings about parts of the named agent's definition that will not work. It returns nil for an agent
// of the fleet, and if the agent cannot be found.
func (s *Service) Warnings(ctx context.Context, agent string) []string {
	f, err := s.findAgent(ctx, agent)
	if err != nil || f.definition == nil {
		return nil
	}
	return f.definition.Warnings
}
