package sessions

// Waiting returns how many messages wait for their turn in a session.
func (s *Service) Waiting(id string) int { return s.turns.Waiting(id) }

// Abandoned returns the number of turns that nobody waits for and that will be interrupted.
func (s *Service) Abandoned() int {
	s.waitingCalls.mu.Lock()
	defer s.waitingCalls.mu.Unlock()
	return len(s.waitingCalls.scheduled)
}
