package fleet

import (
	"context"
	"errors"
)

// Lease is the right of one owner to work on what the key names. Another owner can take it when its time is over.
type Lease struct {
	Key   string
	Epoch int64 // grows whenever the lease changes hands
}

// AgentLease is the beginning of the keys of leases that workers hold on their agents, each with the agent's uid behind it.
const AgentLease = "agent/"

// ErrLeaseLost is the error of an Update whose lease another owner has taken.
var ErrLeaseLost = errors.New("the lease was lost: another replica has taken over")

type leaseKey struct{}

// WithLease returns a context whose updates of a store hold only while the lease does. A worker that was paused for
// longer than its lease cannot write with it.
func WithLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseFrom returns the lease of the context, if it has one.
func LeaseFrom(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok
}
