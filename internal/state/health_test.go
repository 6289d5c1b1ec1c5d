package state_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// sickStore is a store that can refuse the writes of the health check, report a newer schema, or refuse to renew
// leases.
type sickStore struct {
	fleet.Store
	note     func(ctx context.Context) error // replaces the writes of the health check; nil means they succeed
	newer    int64                           // by how many versions the schema in the store is newer
	noLeases *atomic.Bool                    // if true, leases are not renewed; nil means they are
}

func (s sickStore) NoteDone(ctx context.Context, key string, ago time.Duration) error {
	if strings.HasPrefix(key, "health/") && s.note != nil {
		return s.note(ctx)
	}
	return s.Store.NoteDone(ctx, key, ago)
}

func (s sickStore) Schema(ctx context.Context) (current, atOpen int64, err error) {
	current, atOpen, err = s.Store.Schema(context.WithoutCancel(ctx)) // on a slow machine, the caller may give up too early
	return current + s.newer, atOpen, err
}

func (s sickStore) RenewLeases(ctx context.Context, owner string, ttl time.Duration, keys []string) (map[string]int64, error) {
	if s.noLeases != nil && s.noLeases.Load() {
		return nil, errors.New("the store is gone")
	}
	return s.Store.RenewLeases(ctx, owner, ttl, keys)
}

// neverSlow returns the store with health checks that succeed at once, also on a slow machine.
func neverSlow(s fleet.Store) fleet.Store {
	return sickStore{Store: s, note: func(context.Context) error { return nil }}
}

// newSickHarness returns a harness that uses the store. It waits until the place has been listed.
func newSickHarness(t *testing.T, s sickStore) *servicetest.Harness {
	t.Helper()
	ttl := waittest.Limit
	if s.noLeases != nil {
		ttl = time.Second // short, so that the failure of a renewal is noticed soon
	}
	h := servicetest.NewOver(t, fake.Config{}, func(c *state.Config) { c.LeaseTTL = ttl }, func(store fleet.Store) fleet.Store { s.Store = store; return s })
	<-h.FakePlace.Called(fake.List, 2) // the first listing is recorded before the second begins
	return h
}

// requireDegraded fails the test unless the part is the only one that is degraded, with a reason that contains why.
func requireDegraded(t *testing.T, h fleet.Health, part, why string) {
	t.Helper()
	require.Len(t, h.Degraded, 1)
	require.Equal(t, part, h.Degraded[0].Part)
	require.Contains(t, h.Degraded[0].Reason, why)
	require.False(t, h.Degraded[0].Since.IsZero())
}

// TestStoreCannotBeWritten checks that a server is not ready while its store refuses writes, and is ready afterwards.
func TestStoreCannotBeWritten(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	fails.Store(true)
	h := newSickHarness(t, sickStore{note: func(context.Context) error {
		if fails.Load() {
			return errors.New("cannot execute UPDATE in a read-only transaction: secret")
		}
		return nil
	}})
	health := h.Health(t.Context())
	requireDegraded(t, health, "store", "the store cannot be written")
	require.False(t, health.Ready)
	require.Equal(t, health, h.Health(t.Context()), "the time must be that of the first failure")
	fails.Store(false)
	health = h.Health(t.Context())
	require.True(t, health.Ready)
	require.Empty(t, health.Degraded)
}

// TestSlowStore checks that a server is ready although its store is slow.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	h := newSickHarness(t, sickStore{note: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }})
	health := h.Health(t.Context())
	requireDegraded(t, health, "store", "did not finish a write within 1s")
	require.True(t, health.Ready)
}

// TestNewerSchema checks that a server stays ready, and reports the schema, after a newer server has upgraded the
// database.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	h := newSickHarness(t, sickStore{newer: 1, note: func(context.Context) error { return nil }})
	health := h.Health(t.Context())
	requireDegraded(t, health, "schema", "upgrade this server too")
	require.True(t, health.Ready)
}

// TestLeasesNotRenewed checks that a server reports that it cannot renew its leases until it can renew them again.
func TestLeasesNotRenewed(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	h := newSickHarness(t, sickStore{noLeases: &fails})
	h.Create("papi")
	h.Start("papi", "wait ever")
	fails.Store(true)
	h.WaitObserved(func() bool {
		health := h.Health(t.Context())
		return health.Ready && len(health.Degraded) == 1 && health.Degraded[0].Part == "leases"
	})
	fails.Store(false)
	h.WaitObserved(func() bool { return len(h.Health(t.Context()).Degraded) == 0 })
}
