package storetest

import (
	"context"
	"errors"

	"fleet/internal/fleet"
)

// Twice returns a store over s whose Update runs every function twice: it rolls back the first run and commits the
// second. fleet.Store allows this. With Twice, tests find functions that have effects outside of the transaction.
func Twice(s fleet.Store) fleet.Store { return repeatingStore{s} }

type repeatingStore struct{ fleet.Store }

var errSecondRun = errors.New("second run")

func (s repeatingStore) Update(ctx context.Context, fn func(tx fleet.Tx) error) error {
	err := s.Store.Update(ctx, func(tx fleet.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errSecondRun
	})
	if !errors.Is(err, errSecondRun) {
		return err
	}
	return s.Store.Update(ctx, fn)
}
