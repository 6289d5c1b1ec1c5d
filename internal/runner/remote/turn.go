package remote

import "context"

// turn lets one call at a time work with an agent, as the port says. A caller whose connection broke calls again before the
// first call has noticed.
type turn struct {
	held   chan struct{}      // has a value while a call has the turn
	giveUp context.CancelFunc // of the newest call
}

// take waits for the agent's turn. A call that has it or waits for it has been given up by its caller, since Fleet makes one
// call at a time: it is cut off. The caller of take calls done at the end.
func (s *Server) take(ctx context.Context, uid string) (_ context.Context, done func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	t := s.turns[uid]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1), giveUp: func() {}}
		s.turns[uid] = t
	}
	t.giveUp()
	t.giveUp = cancel
	s.mu.Unlock()
	select {
	case t.held <- struct{}{}:
		return ctx, func() { cancel(); <-t.held }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, ctx.Err()
	}
}
