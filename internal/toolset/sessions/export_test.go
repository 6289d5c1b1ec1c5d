package sessions

// Waiting returns how many messages wait for their turn in a session.
func (s *Service) Waiting(id string) int { return s.turns.Waiting(id) }
