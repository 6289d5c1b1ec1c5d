package sessions

import (
	"context"

	"fleet/internal/fleet"
)

// Close closes a session of the caller. It does not change a closed session.
func (s *Service) Close(ctx context.Context, id string) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	v, err := s.session(ctx, id)
	if err != nil {
		return err
	}
	return s.close(ctx, v.Session, "closed by "+p.Name)
}

// close closes the session for the given reason and releases the messages that wait for their turn in it. If close is
// interrupted, it can be repeated.
func (s *Service) close(ctx context.Context, x *fleet.Session, reason string) error {
	err := s.core.CloseSession(ctx, x, reason)
	if err == nil {
		s.turns.Shut(x.ID)
	}
	return err
}

// closeUnused does the same as close, unless somebody has used the session since x was read. closed reports whether the
// session is closed.
func (s *Service) closeUnused(ctx context.Context, x *fleet.Session, reason string) (closed bool, err error) {
	closed, err = s.core.CloseUnused(ctx, x, reason)
	if closed && err == nil {
		s.turns.Shut(x.ID)
	}
	return closed, err
}
