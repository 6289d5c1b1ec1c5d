package cli

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestCreateWaits checks that a command does not succeed before the agent is ready.
func TestCreateWaits(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	// On a slow machine, --wait ends before the server has answered. Then the command asks for the agent, which may not be created yet.
	s.agents["stuck"] = &fleetv1.Agent{Name: "stuck", State: fleetv1.Agent_starting, StateReason: "its startup script runs"}
	server, _ := s.listen(t, "")
	out, _ := mustRun(t, server, "agent", "create", "slow", "--project", "shell", "--spec", "x")
	require.Contains(t, out, "created successfully")

	out, stderr, code := runFleet(server, "agent", "create", "stuck", "--project", "shell", "--spec", "x", "--wait", "1ms")
	require.Equal(t, ExitTimeout, code)
	require.Empty(t, out)
	require.Equal(t, "fleet: stuck is not ready yet, its workspace is starting: its startup script runs; keep waiting with \"fleet agent start stuck\"\n", stderr)
	_, stderr, code = runFleet(server, "agent", "start", "stuck", "--wait", "1ms", "-o", "json")
	require.Equal(t, ExitTimeout, code)
	require.Contains(t, stderr, `"error": "TIMED_OUT"`)
}

// TestWaitIsALimit checks that --wait limits a command even if the server does not answer, and that the command then reports
// the agent's state.
func TestWaitIsALimit(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	s.beforeUnary = func(ctx context.Context, _ string, req any) error {
		if _, ok := req.(*fleetv1.StartAgentRequest); ok { // the server waits for the agent
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	server, _ := s.listen(t, "")
	mustRun(t, server, "agent", "create", "papi", "--project", "shell", "--spec", "x")
	_, stderr, code := runFleet(server, "agent", "start", "papi", "--wait", "10ms")
	require.Equal(t, ExitTimeout, code, stderr)
	require.Contains(t, stderr, "papi is not ready yet, its workspace is ")
}

// TestStartEndsATaskOnlyWithYes checks that the command ends a task of an unhealthy agent only with --yes.
func TestStartEndsATaskOnlyWithYes(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	mustRun(t, server, "agent", "create", "ill", "--project", "shell", "--spec", "x")
	_, stderr, code := runFleet(server, "agent", "start", "ill")
	require.Equal(t, ExitConflict, code)
	require.Contains(t, stderr, "would end the task")
	require.Contains(t, stderr, "--yes")
	out, _ := mustRun(t, server, "agent", "start", "ill", "--yes")
	require.Contains(t, out, "restarted")
}
