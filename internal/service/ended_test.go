package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/place/fake"
	"fleet/internal/service/servicetest"
)

// TestDeletedTaskOfAnEndedAgent deletes the task of an agent that another server has in its cache.
func TestDeletedTaskOfAnEndedAgent(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{}, servicetest.Others(servicetest.Second(t, fake.Config{})))
	other := h.Replica()
	v, err := h.Launch(h.Context(), servicetest.Launch("done well"))
	require.NoError(t, err)
	h.Gone(v.UID)
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
