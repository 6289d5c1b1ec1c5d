package fleet

import (
	"context"
	"fmt"
)

// CallID identifies a call of the API in the log. The zero CallID means that there is no call.
type CallID uint64

// String returns the id in 16 hex digits.
func (id CallID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

type callKey struct{}

// WithCall returns a context for the call with the id.
func WithCall(ctx context.Context, id CallID) context.Context {
	return context.WithValue(ctx, callKey{}, id)
}

// CallFrom returns the id of the call that the context belongs to; zero if it belongs to none.
func CallFrom(ctx context.Context) CallID {
	id, _ := ctx.Value(callKey{}).(CallID)
	return id
}
