package service

import (
	"context"

	"fleet/internal/fleet"
)

// TaskChecks returns the state of the task's checks; nil if the task has none.
func (s *Service) TaskChecks(ctx context.Context, id string) (known *fleet.TaskChecks, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		t, err := s.task(tx, p, id, fleet.AccessView)
		if err != nil {
			return err
		}
		known, err = tx.Checks(t.ID)
		return err
	})
	return known, err
}
