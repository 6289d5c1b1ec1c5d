package fleet

import (
	"context"
)

// PlaceNames returns the names of all places, sorted.
func (s *Service) PlaceNames() []string { return s.places.names() }

// TraitsOf returns the facts about the place with the name, "" meaning the fleet's first one; ok is false if there is
// none.
func (s *Service) TraitsOf(name string) (t Traits, ok bool) {
	p := s.places.lookup(name)
	if p == nil {
		return Traits{}, false
	}
	return p.traits, true
}

// PlaceWith returns the facts about the first place that has the driver, preferring places of the fleet; ok is false if
// none has it.
func (s *Service) PlaceWith(driver string) (t Traits, ok bool) {
	p := s.places.with(driver)
	if p == nil {
		return Traits{}, false
	}
	return p.traits, true
}

// Places returns the state of the places of the fleet, in the order of the configuration, followed by places of p's
// agents that are not configured.
func (s *Service) Places(p Principal) []PlaceState {
	all := make([]PlaceState, 0, len(s.places.fleet))
	for _, place := range s.places.fleet {
		all = append(all, place.state())
	}
	for _, name := range s.snap.listing().placesOf(p) {
		if s.places.lookup(name) == nil {
			all = append(all, s.places.absent(name).state())
		}
	}
	return all
}

// PlaceOf returns the state of the agent's place.
func (s *Service) PlaceOf(v *AgentView) PlaceState { return s.places.of(&v.Agent).state() }

// Health reports on the parts that Fleet needs. It calls the store but no place.
func (s *Service) Health(ctx context.Context) Health { return s.places.health(ctx) }
