package reconcile

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
)

// leaseCounter counts the requests for leases.
type leaseCounter struct {
	fleet.Store
	requests atomic.Int64
}

func (s *leaseCounter) Lease(ctx context.Context, key, owner string, ttl time.Duration) (int64, error) {
	s.requests.Add(1)
	return s.Store.Lease(ctx, key, owner, ttl)
}

// TestAgentOfAnotherReplica changes an agent while another replica has its lease. The reconciler requests the lease after
// scans of all agents, but not after each change. Once the lease is free, it requests the lease after a change.
func TestAgentOfAnotherReplica(t *testing.T) {
	t.Parallel()
	store, err := sqlitetest.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	counter := &leaseCounter{Store: store}
	place := fake.New(fake.Config{})
	t.Cleanup(place.Destroy)
	r := New(state.New(counter, []fleet.Place{place}, state.Config{}))
	now := time.Now().UTC()
	a := &fleet.Agent{
		UID: "u1", Name: "papi", Owner: "alice", Place: place.Traits().Name, State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now,
	}
	require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error { return tx.InsertAgent(a) }))
	_, err = store.Lease(t.Context(), fleet.AgentLease+a.UID, "other", time.Hour)
	require.NoError(t, err)

	scan := func(all bool) int64 {
		require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error {
			return tx.Append(a.Event(fleet.EventAgentChanged, now, "changed"))
		}))
		require.NoError(t, r.scan(t.Context(), all))
		r.running.Wait()
		return counter.requests.Load()
	}
	require.EqualValues(t, 1, scan(true))
	require.EqualValues(t, 1, scan(false))
	require.EqualValues(t, 1, scan(false))
	require.EqualValues(t, 2, scan(true))
	require.EqualValues(t, 2, scan(false))
	require.NoError(t, store.Release(t.Context(), fleet.AgentLease+a.UID, "other"))
	require.Greater(t, scan(false), int64(2))
}
