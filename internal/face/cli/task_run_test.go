package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestQueueingCanBeRepeated checks that "task start --queue" can be repeated with the same request id after it has queued the task. Then the
// server refuses the id for StartAgentTask, because QueueTask was called with it.
func TestQueueingCanBeRepeated(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	usedErr := statusError(codes.InvalidArgument, "INVALID_ARGUMENT", "the request_id was used before", map[string]string{"field": "request_id"})
	refusals := []error{statusError(codes.Aborted, "AGENT_BUSY", "the agent is busy", nil), usedErr, usedErr}
	s.beforeUnary = func(_ context.Context, _ string, req any) error {
		if _, ok := req.(*fleetv1.StartAgentTaskRequest); !ok {
			return nil
		}
		err := refusals[0]
		refusals = refusals[1:]
		return err
	}
	for range 2 {
		out, _ := mustRun(t, server, "task", "start", "papi", "x", "--queue", "--request-id", "r-1")
		require.Equal(t, "task-of-r-1\n", out)
	}
	_, line, code := runFleet(server, "task", "start", "papi", "x", "--request-id", "r-1")
	require.Equal(t, ExitUsage, code, line)
}
