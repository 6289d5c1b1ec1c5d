package service

import (
	"fleet/internal/fleet"
)

// checkConfined refuses callers who are not admins and would run unconfined programs. Such programs could read and
// change other people's data.
func (s *Service) checkConfined(p fleet.Principal, a *fleet.Agent) error {
	c, ok := s.places.Of(a).Place.(fleet.Confiner)
	if !ok || p.Admin() {
		return nil
	}
	why := c.Unconfined(*a)
	if why == "" {
		return nil
	}
	return fleet.Errorf(fleet.ReasonPermissionDenied, "agents on this machine are for admins only, since nothing confines their programs: %s", why)
}
