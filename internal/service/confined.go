package service

import (
	"fleet/internal/fleet"
)

// checkConfined refuses callers who are not admins and would run unconfined programs. Such programs could read and
// change other people's data.
func (s *Service) checkConfined(p fleet.Principal, a *fleet.Agent) error {
	if p.Admin() || p.UnconfinedIn != "" && p.UnconfinedIn == a.Place {
		return nil
	}
	why := s.unconfined(a)
	if why == "" {
		return nil
	}
	return fleet.Errorf(fleet.ReasonPermissionDenied, "agents on this machine are for admins only, since nothing confines their programs: %s", why)
}

// unconfined returns why the agent's programs could reach what is not the agent's own; empty if they cannot.
func (s *Service) unconfined(a *fleet.Agent) string {
	if c, ok := s.places.Of(a).Place.(fleet.Confiner); ok {
		return c.Unconfined(*a)
	}
	return ""
}

// Delegate returns the principal as which the agent runs other agents. They belong to the agent's owner. Their programs may
// be unconfined if the agent's own programs are, because they gain nothing by that.
func (s *Service) Delegate(a *fleet.Agent) fleet.Principal {
	p := fleet.Principal{Name: a.Owner, Kind: fleet.AgentKind}
	if s.unconfined(a) != "" {
		p.UnconfinedIn = a.Place
	}
	return p
}
