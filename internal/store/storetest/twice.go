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

var errRunAgain = errors.New("run again")

func (s repeatingStore) Update(ctx context.Context, fn func(tx fleet.Tx) error) error {
	err := s.Store.Update(ctx, func(tx fleet.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errRunAgain
	})
	if !errors.Is(err, errRunAgain) {
		return err
	}
	return s.Store.Update(ctx, fn)
}
