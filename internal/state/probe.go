package state

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
)

// probeInterval is how long the store counts as writable after a probe has succeeded. It limits the writes that health checks cause.
const probeInterval = 5 * time.Second

// probe checks that the store can be written, and that its schema has the version that this server knows.
type probe struct {
	mu         sync.Mutex
	writableAt time.Time // when the store was last writable

	store  atomic.Pointer[failure] // why it cannot be written, or that it is slow; nil if it works
	schema atomic.Pointer[failure] // that a newer Fleet has upgraded the schema; nil if it has not
}

// check reports whether the store can be written. A full store counts as writable, because it still accepts writes that end
// or remove something. After a probe, check also compares the version of the schema.
func (p *probe) check(ctx context.Context, store fleet.Store, cfg Config) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := cfg.Time()
	if now.Sub(p.writableAt) < probeInterval {
		return true
	}
	timeoutCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.ProbeTimeout)
	defer cancel()
	err := store.NoteDone(timeoutCtx, "health/"+cfg.Replica, 0)
	switch {
	case err == nil, errors.Is(err, fleet.ErrStoreFull):
		p.writableAt = now
		p.store.Store(nil)
	case timeoutCtx.Err() != nil:
		recordFailure(&p.store, unavailable("the store did not finish a write within %s", cfg.ProbeTimeout), now)
	default:
		recordFailure(&p.store, unavailable("the store cannot be written"), now)
		return false
	}
	current, atOpen, err := store.Schema(timeoutCtx)
	switch {
	case err == nil && current > atOpen:
		recordFailure(&p.schema, unavailable("a newer Fleet has upgraded the database to version %d, and this one knows %d: upgrade this server too", current, atOpen), now)
	case err == nil:
		p.schema.Store(nil)
	}
	return true
}

func unavailable(format string, args ...any) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, format, args...)
}
