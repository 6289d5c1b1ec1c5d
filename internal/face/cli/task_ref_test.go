package cli

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestChangesOfATaskNameTheTask checks that a command that names an agent sends the id of the agent's newest task, and nothing else, in requests
// that change the task. The server refuses a repeated command with --request-id if its requests differ.
func TestChangesOfATaskNameTheTask(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	s.tasks = []*fleetv1.TaskDetail{{Id: "t-1", AgentName: "papi", Status: fleetv1.Task_completed}}
	var sent []string
	s.beforeUnary = func(_ context.Context, _ string, req any) error {
		r, ok := req.(interface {
			GetTaskId() string
			GetRequestId() string
		})
		if !ok {
			return nil
		}
		sent = append(sent, r.GetTaskId())
		return statusError(codes.FailedPrecondition, "WORK_SETTLED", "the work has landed", nil)
	}
	for _, command := range []string{"abandon", "keep", "push", "pr", "review"} {
		args := []string{"task", command, "papi"}
		if command == "review" {
			args = append(args, "--approve")
		}
		_, line, code := runFleet(server, args...)
		require.Equal(t, ExitState, code, line)
	}
	require.Equal(t, slices.Repeat([]string{"t-1"}, 5), sent)
}
