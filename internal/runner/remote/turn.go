package remote

import "context"

// turn allows one call for an agent at a time, as fleet.Runner requires. A caller whose connection broke may repeat its
// call before the server notices that the first call was abandoned.
type turn struct {
	running chan struct{}      // contains a value while a call has the turn
	cancel  context.CancelFunc // cancels the newest call
}

// takeTurn waits for the agent's turn. It cancels the call that has the turn or waits for it: Fleet makes one call at a time, so
// the caller of that call has given up. If takeTurn returns no error, endTurn must be called.
func (s *Server) takeTurn(ctx context.Context, uid string) (_ context.Context, endTurn func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	t := s.turns[uid]
	if t == nil {
		t = &turn{running: make(chan struct{}, 1), cancel: func() {}}
		s.turns[uid] = t
	}
	t.cancel()
	t.cancel = cancel
	s.mu.Unlock()
	select {
	case t.running <- struct{}{}:
		return ctx, func() { cancel(); <-t.running }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, ctx.Err()
	}
}
