package service

import (
	"fleet/internal/fleet"
)

// checkConfined returns PERMISSION_DENIED if the agent's programs are not confined, so that they could read and change
// other people's data, unless p is an admin or may run unconfined agents at the agent's place.
func (s *Service) checkConfined(p fleet.Principal, a *fleet.Agent) error {
	if p.Admin() || p.UnconfinedIn != "" && p.UnconfinedIn == a.Place {
		return nil
	}
	why := s.unconfinedReason(a)
	if why == "" {
		return nil
	}
	return fleet.Errorf(fleet.ReasonPermissionDenied,
		"only admins may use agents whose programs are not confined: %s", why)
}

// unconfinedReason returns the reason why the agent's programs could reach files and processes of others; empty if they cannot.
func (s *Service) unconfinedReason(a *fleet.Agent) string {
	if c, ok := s.places.Of(a).Place.(fleet.Confiner); ok {
		return c.UnconfinedReason(*a)
	}
	return ""
}

// PrincipalOfAgent returns the principal that the agent acts as when it runs other agents. Those agents belong to the agent's
// owner. If the agent's own programs are unconfined, the principal may also run unconfined agents at the same place. This
// gives the agent no new rights, because its own programs can already reach the files and processes of others.
func (s *Service) PrincipalOfAgent(a *fleet.Agent) fleet.Principal {
	p := fleet.Principal{Name: a.Owner, Kind: fleet.KindAgent}
	if s.unconfinedReason(a) != "" {
		p.UnconfinedIn = a.Place
	}
	return p
}
