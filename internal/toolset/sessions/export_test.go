package sessions

// Waiting returns how many messages wait for their turn in a session.
func (s *Service) Waiting(id string) int {
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	if q := s.turns.busy[id]; q != nil {
		return len(q.waiting)
	}
	return 0
}
