package fleet

// checkConfined refuses to let anybody but an admin run programs that are not confined: they could read and change what
// belongs to other people.
func (s *Service) checkConfined(p Principal, a *Agent) error {
	c, ok := s.host(a).(Confiner)
	if !ok || p.Admin {
		return nil
	}
	why := c.Unconfined(*a)
	if why == "" {
		return nil
	}
	return Errorf(ReasonPermissionDenied, "agents on this machine are for admins only, since nothing confines their programs: %s", why)
}
