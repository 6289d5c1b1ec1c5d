package fleet

import (
	"context"
	"errors"
)

// Lease is the exclusive right of one owner to work on the object that the key names. Another owner can take it when it
// has expired.
type Lease struct {
	Key   string
	Epoch int64 // increases whenever the lease gets another owner or is released
}

// AgentLeasePrefix is the prefix of the lease keys of workers; the agent's uid follows.
const AgentLeasePrefix = "agent/"

// ErrLeaseLost is the error of an Update whose lease another owner has taken.
var ErrLeaseLost = errors.New("the lease was lost: another server has taken over")

type leaseKey struct{}

// WithLease returns a context whose updates of a store succeed only while the lease is held. A worker that was paused for
// longer than its lease therefore cannot write.
func WithLease(ctx context.Context, l Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, l)
}

// LeaseFrom returns the lease of the context. It returns false if the context has none.
func LeaseFrom(ctx context.Context) (Lease, bool) {
	l, ok := ctx.Value(leaseKey{}).(Lease)
	return l, ok
}
