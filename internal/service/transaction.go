package service

import (
	"context"

	"fleet/internal/fleet"
)

// view returns what read returns in a transaction. read may be called twice.
func view[T any](ctx context.Context, store fleet.Store, read func(fleet.ReadTx) (T, error)) (result T, err error) {
	err = store.View(ctx, func(tx fleet.ReadTx) (err error) {
		result, err = read(tx)
		return err
	})
	return result, err
}

// viewAs works like view, and passes the caller to read.
func viewAs[T any](ctx context.Context, store fleet.Store, read func(fleet.ReadTx, fleet.Principal) (T, error)) (result T, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return result, err
	}
	return view(ctx, store, func(tx fleet.ReadTx) (T, error) { return read(tx, p) })
}

// updateAs executes change in a transaction, and passes the caller to it. change may be called twice.
func (s *Service) updateAs(ctx context.Context, change func(fleet.Tx, fleet.Principal) error) error {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx fleet.Tx) error { return change(tx, p) })
}
