package fleet

import "context"

// TaskChecks returns what is known of the task's checks; nil when it has none.
func (s *Service) TaskChecks(ctx context.Context, id string) (known *TaskChecks, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx ReadTx) error {
		t, err := s.task(tx, p, id)
		if err != nil {
			return err
		}
		known, err = tx.Checks(t.ID)
		return err
	})
	return known, err
}
