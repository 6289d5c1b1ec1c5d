package runner

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// TestSendBeforeTheSupervisorListens sends a message to a run whose supervisor cannot be reached. The run is active, so
// the error must allow another attempt. A message that was delivered must be accepted again even after the end of the run.
func TestSendBeforeTheSupervisorListens(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	r := fleet.Run{TaskID: "task-1", Prompt: "read -r line <$FLEET_MESSAGES; echo $line >>times", Timeout: waittest.Limit}
	require.NoError(t, x.agent.Dispatch(ctx, r))
	socket := x.home.run(r.TaskID).Path("control")
	require.NoError(t, os.Rename(socket, socket+"-later"))
	require.Equal(t, fleet.ReasonBackendUnavailable, fleet.ReasonOf(x.agent.Send(ctx, r, "m1", "hi")))
	require.NoError(t, os.Rename(socket+"-later", socket))
	require.NoError(t, x.agent.Send(ctx, r, "m1", "hi"))
	_, err := x.follow(ctx, r)
	require.NoError(t, err)
	require.Equal(t, "hi\n", x.times())
	require.NoError(t, x.agent.Send(ctx, r, "m1", "hi"), "a delivered message must be accepted again after the end")
	require.Equal(t, fleet.ReasonNoRunningTask, fleet.ReasonOf(x.agent.Send(ctx, r, "m2", "hi")))
}
