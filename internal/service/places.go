package service

import (
	"context"

	"fleet/internal/fleet"
)

// PlaceNames returns the names of all places, sorted.
func (s *Service) PlaceNames() []string { return s.places.Names() }

// TraitsOf returns the traits of the place with the name; an empty name means the fleet's first place. ok is false if there
// is no such place.
func (s *Service) TraitsOf(name string) (t fleet.Traits, ok bool) {
	p := s.places.Configured(name)
	if p == nil {
		return fleet.Traits{}, false
	}
	return p.Traits(), true
}

// TraitsWithDriver returns the traits of the first place that has the driver. It prefers places of the fleet. ok is false if no
// place has the driver.
func (s *Service) TraitsWithDriver(driver string) (t fleet.Traits, ok bool) {
	p := s.places.WithDriver(driver)
	if p == nil {
		return fleet.Traits{}, false
	}
	return p.Traits(), true
}

// Places returns the states of the fleet's places, in the order of the configuration. After them, it returns the states of the
// places that this server does not have, but in which p sees agents.
func (s *Service) Places(p fleet.Principal) []fleet.PlaceState {
	all := s.places.States()
	for _, name := range s.snap.AgentLists().PlacesOf(p) {
		if s.places.Configured(name) == nil {
			all = append(all, s.places.Of(&fleet.Agent{Place: name}).State())
		}
	}
	return all
}

// PlaceStateOf returns the state of the agent's place.
func (s *Service) PlaceStateOf(v *fleet.AgentView) fleet.PlaceState {
	return s.places.Of(&v.Agent).State()
}

// Health returns the health of the parts that Fleet needs. It calls the store but no place.
func (s *Service) Health(ctx context.Context) fleet.Health { return s.places.Health(ctx) }

// SetShuttingDown makes Health report that the server is not ready, because it is about to stop.
func (s *Service) SetShuttingDown() { s.places.SetShuttingDown() }
