package sessions

import (
	"context"

	"fleet/internal/fleet"
)

// Interrupt stops the running turn of a session, waits until the turn has ended, and returns its task. It returns nil
// if no turn is running. The session stays open.
func (s *Service) Interrupt(ctx context.Context, id string) (*fleet.Task, error) {
	v, err := s.session(ctx, id)
	if err != nil {
		return nil, err
	}
	running := v.Turn() // not v.ActiveTask, since an agent of the fleet may run a task outside the session
	if running == nil {
		return nil, nil
	}
	if err := s.core.RequestTaskStop(ctx, running.ID); err != nil {
		return nil, err
	}
	return s.core.FollowTask(ctx, running.ID, 0, nil)
}
