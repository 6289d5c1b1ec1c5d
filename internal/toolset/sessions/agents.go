package sessions

import (
	"context"

	"fleet/internal/fleet"
)

// Agents returns the agents that the caller can name in Create and Invoke: first those in files, then pulled artifacts,
// then agents of the fleet. If source is not "", it returns only the agents from this source.
func (s *Service) Agents(ctx context.Context, source fleet.DefinitionSource) ([]fleet.Definition, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return nil, err
	}
	var all []fleet.Definition
	for _, from := range []struct {
		source fleet.DefinitionSource
		list   func(context.Context) ([]fleet.Definition, error)
	}{{fleet.DefinitionFiles, s.catalog.Files}, {fleet.DefinitionStore, s.catalog.Artifacts}, {fleet.DefinitionFleet, s.fleetAgents}} {
		if source != "" && source != from.source {
			continue
		}
		agents, err := from.list(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, agents...)
	}
	return all, nil
}

// maxDescription is how much of an agent's description a list shows, in bytes. Descriptions can have a megabyte each.
const maxDescription = 1000

// fleetAgents returns the agents in the fleet that the caller owns; see Principal.OwnsAll. For an admin, these are the
// agents of all owners. Agents that others share with the caller are left out.
func (s *Service) fleetAgents(ctx context.Context) ([]fleet.Definition, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	l, err := s.core.ListAgents(ctx, fleet.ListAgentsRequest{})
	if err != nil {
		return nil, err
	}
	all := make([]fleet.Definition, 0, len(l.Agents))
	for _, v := range l.Agents {
		if p.OwnsAll(v.Owner) {
			all = append(all, fleet.Definition{Name: v.Name, Description: fleet.Shorten(v.Spec, maxDescription), Source: fleet.DefinitionFleet})
		}
	}
	return all, nil
}

// Pull pulls an agent from a registry into the catalog. It gives up the slot of the call first.
func (s *Service) Pull(ctx context.Context, reference string) (fleet.PulledArtifact, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return fleet.PulledArtifact{}, err
	}
	fleet.ReleaseSlot(ctx) // a registry may take long
	return s.catalog.Pull(ctx, reference)
}

// RemovePulled removes an agent that the caller has pulled. An admin can also remove agents that others have pulled.
func (s *Service) RemovePulled(ctx context.Context, reference string) (fleet.PulledArtifact, error) {
	if _, err := fleet.PrincipalFrom(ctx); err != nil {
		return fleet.PulledArtifact{}, err
	}
	return s.catalog.Remove(ctx, reference)
}
