package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestEndedServersAreListedForAnHour checks which servers that do not run are listed.
func TestEndedServersAreListedForAnHour(t *testing.T) {
	t.Parallel()
	var clockAhead time.Duration
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) { c.Now = func() time.Time { return time.Now().Add(clockAhead) } })
	h.Reconciler.Stop() // it would read the clock too
	for _, name := range []string{"busy", "empty"} {
		_, err := h.Store.RecordHeartbeat(t.Context(), fleet.Replica{Name: name, Machine: name}, true)
		require.NoError(t, err)
	}
	a := &fleet.Agent{UID: "u1", Name: "papi", Owner: "alice", Place: "local@busy", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: time.Now(), UpdatedAt: time.Now()}
	require.NoError(t, h.Store.Update(t.Context(), func(tx fleet.Tx) error {
		require.NoError(t, tx.Insert(a))
		return tx.Append(a.Event(fleet.EventAgentCreated, time.Now(), ""))
	}))
	names := func() (names []string) {
		all, err := h.ListReplicas(servicetest.AsAdmin(t.Context()))
		require.NoError(t, err)
		for _, r := range all {
			names = append(names, r.Name)
		}
		return names
	}
	require.Equal(t, []string{"busy", "empty"}, names())
	clockAhead = 2 * time.Hour
	require.Equal(t, []string{"busy"}, names())
}
