package runner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

// TestFollowWhileDeleted is Follow when the agent is deleted after Follow has found that the agent has the task.
func TestFollowWhileDeleted(t *testing.T) {
	t.Parallel()
	x, _ := newBench(t)
	_, err := x.agent.newFollower(fleet.Run{TaskID: "deleted"}, "", nil)
	require.Equal(t, fleet.ReasonTaskNotFound, fleet.ReasonOf(err), "%v", err)
}
