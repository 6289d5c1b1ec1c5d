package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestFollowWhileDeleted checks the error if the agent is deleted while Follow begins.
func TestFollowWhileDeleted(t *testing.T) {
	t.Parallel()
	x, _ := newFixture(t)
	_, err := x.agent.newFollower(fleet.Run{TaskID: "deleted"}, "", nil)
	require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err), "%v", err)
}
