package service_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
	"fleet/internal/state"
)

// TestDeletedTaskOfAnEndedAgent checks that a deleted task is no longer shown, also by another server that has the
// agent in its cache.
func TestDeletedTaskOfAnEndedAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, servicetest.WithToolsetPlace(servicetest.SecondPlace(t, fake.Config{})))
	other := h.Replica()
	v, err := h.Launch(h.Context(), servicetest.LaunchRequest("done well"))
	require.NoError(t, err)
	h.WaitDeleted(v.UID)
	for _, server := range []*servicetest.Harness{h, other} {
		views, _, err := server.AgentsByUID(h.Context(), []string{v.UID})
		require.NoError(t, err)
		require.Equal(t, "well", views[0].Task.Summary)
	}
	_, err = h.DeleteTask(h.Context(), v.Task.ID, "")
	require.NoError(t, err)
	for _, server := range []*servicetest.Harness{h, other} {
		views, _, err := server.AgentsByUID(h.Context(), []string{v.UID})
		require.NoError(t, err)
		require.Nil(t, views[0].Task)
	}
}

// TestExpiredPayloadOfAnEndedAgent checks that an agent shows that the payload of its task was removed, even if the agent was in the
// cache before.
func TestExpiredPayloadOfAnEndedAgent(t *testing.T) {
	t.Parallel()
	second := servicetest.SecondPlace(t, fake.Config{})
	var clockAhead atomic.Int64 // nanoseconds by which the clock is ahead
	h := servicetest.New(t, fake.Config{}, func(c *state.Config) {
		servicetest.WithToolsetPlace(second)(c)
		c.Now = func() time.Time { return time.Now().Add(time.Duration(clockAhead.Load())) }
		c.PayloadRetention = 30 * 24 * time.Hour
	})
	v, err := h.Launch(h.Context(), servicetest.LaunchRequest("payload all\ndone well"))
	require.NoError(t, err)
	h.WaitDeleted(v.UID)
	payloadRemoved := func() bool {
		views, _, err := h.AgentsByUID(h.Context(), []string{v.UID})
		require.NoError(t, err)
		require.Equal(t, 3, views[0].Task.PayloadSize)
		return views[0].Task.PayloadRemoved
	}
	require.False(t, payloadRemoved())
	clockAhead.Store(int64(31 * 24 * time.Hour))
	n, err := h.Store.Prune(t.Context(), fleet.PrunePayloads, h.Config.Now().Add(-30*24*time.Hour), 100)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.True(t, payloadRemoved())
}
