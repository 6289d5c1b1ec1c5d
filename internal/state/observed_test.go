package state_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
	"fleet/internal/waittest"
)

// TestFirstListing checks that calls during the first listing of the host wait for it, so that the answer has all
// agents.
func TestFirstListing(t *testing.T) {
	t.Parallel()
	listing := make(chan struct{})
	var calls atomic.Int32
	h := servicetest.New(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: servicetest.Workspaces(50), Before: func(ctx context.Context, c fake.Call) error {
		if c.Method == fake.List && calls.Add(1) == 1 {
			<-listing
		}
		return nil
	}}, func(c *state.Config) { c.FirstListingWait = waittest.Limit })
	require.False(t, h.Health(t.Context()).Ready)
	time.AfterFunc(50*time.Millisecond, func() { close(listing) })
	v, err := h.ShowAgent(h.Context(), "agent-49")
	require.NoError(t, err)
	require.Equal(t, "w-agent-49", v.WorkspaceID)
	listed, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, listed.Agents, 50)
	require.Equal(t, 50, listed.Total)
	require.True(t, h.Health(t.Context()).Ready)
}

// TestListedBefore starts a process while the host is down. It checks that the process shows the agents that an earlier
// process has listed, and when it has listed them.
func TestListedBefore(t *testing.T) {
	t.Parallel()
	h := servicetest.NewOver(t, fake.Config{Traits: fleet.Traits{Adopts: true}, Workspaces: servicetest.Workspaces(1)}, nil, neverSlow)
	_, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{}) // waits for the first listing
	require.NoError(t, err)
	h.FakePlace.Fail(fake.List, 1<<30, fleet.Errorf(fleet.ReasonPermissionDenied, "the token is not accepted"))
	h.Restart()
	agents, err := h.ListAgents(h.Context(), fleet.ListAgentsRequest{})
	require.NoError(t, err)
	require.Len(t, agents.Agents, 1)
	require.False(t, h.Places(fleet.Principal{})[0].ObservedAt.IsZero())
	h.WaitObserved(func() bool { return h.Places(fleet.Principal{})[0].StaleReason == "the token is not accepted" })
	health := h.Health(t.Context())
	require.True(t, health.Ready)
	require.Len(t, health.Degraded, 1)
	require.Equal(t, "fake", health.Degraded[0].Part)
	since := health.Degraded[0].Since
	calls := h.FakePlace.Calls(fake.List)
	<-h.FakePlace.Called(fake.List, calls+3)
	require.Equal(t, since, h.Health(t.Context()).Degraded[0].Since, "the time must be that of the first failure")
	_, err = h.StartTask(h.Context(), service.StartTaskRequest{Agent: "agent-0", Description: "done"})
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(err))

	h.FakePlace.Fail(fake.List, 0, nil)
	h.WaitObserved(func() bool {
		return h.Places(fleet.Principal{})[0].StaleReason == "" && len(h.Health(t.Context()).Degraded) == 0
	})
}

// TestStoreCannotBeRead checks that a server whose store fails is not ready, and names the store.
func TestStoreCannotBeRead(t *testing.T) {
	t.Parallel()
	h, flaky := servicetest.NewFlaky(t, nil)
	h.WaitObserved(func() bool { return h.Health(t.Context()).Ready })
	flaky.FailEvery.Store(1)
	health := h.Health(t.Context())
	require.False(t, health.Ready)
	require.Equal(t, "store", health.Degraded[0].Part)
	flaky.FailEvery.Store(0)
	require.True(t, h.Health(t.Context()).Ready)
}
