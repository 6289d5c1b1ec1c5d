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

func (l *leaseCounter) AcquireLease(ctx context.Context, key, owner string, ttl time.Duration) (int64, error) {
	l.requests.Add(1)
	return l.Store.AcquireLease(ctx, key, owner, ttl)
}

// TestAgentLeasedElsewhere changes an agent while another process has its lease. The reconciler requests the lease after
// scans of all agents, but not after each change. It also requests the lease once the lease is free.
func TestAgentLeasedElsewhere(t *testing.T) {
	t.Parallel()
	store, err := sqlitetest.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	counter := &leaseCounter{Store: store}
	place := fake.New(fake.Config{})
	t.Cleanup(place.Destroy)
	r := New(state.New(counter, []fleet.Place{place}, state.Config{}), nil)
	now := time.Now().UTC()
	a := &fleet.Agent{
		UID: "u1", Name: "papi", Owner: "alice", Place: place.Traits().Name, State: fleet.StatePending, Desired: fleet.DesiredRunning, CreatedAt: now, UpdatedAt: now,
	}
	require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error { return tx.Insert(a) }))
	_, err = store.AcquireLease(t.Context(), fleet.AgentLeasePrefix+a.UID, "other", time.Hour)
	require.NoError(t, err)

	scan := func(which scanScope) int64 {
		require.NoError(t, store.Update(t.Context(), func(tx fleet.Tx) error {
			return tx.Append(a.Event(fleet.EventAgentChanged, now, "changed"))
		}))
		require.NoError(t, r.scan(t.Context(), which))
		r.background.Wait()
		return counter.requests.Load()
	}
	require.EqualValues(t, 1, scan(allAgents))
	require.EqualValues(t, 1, scan(changedAgents))
	require.EqualValues(t, 1, scan(releasedAgents))
	require.EqualValues(t, 2, scan(allAgents))
	require.EqualValues(t, 2, scan(changedAgents))
	require.NoError(t, store.ReleaseLease(t.Context(), fleet.AgentLeasePrefix+a.UID, "other"))
	require.NoError(t, r.scan(t.Context(), releasedAgents)) // nothing has changed since
	r.background.Wait()
	require.Greater(t, counter.requests.Load(), int64(2))
}
