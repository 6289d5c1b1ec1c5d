package cli

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// TestTaskFromTerminal checks that "task show" explains a result that was read from the agent's terminal, and only such
// a result.
func TestTaskFromTerminal(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	yes := true
	s.tasks = []*fleetv1.TaskDetail{
		{Id: "t-1", Status: fleetv1.Task_completed, FromTerminal: &yes}, {Id: "t-2", Status: fleetv1.Task_completed},
	}
	server, _ := s.listen(t, "")
	c := newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "show", "t-1"), c.err.String())
	require.Regexp(t, `(?m)^Read from +the agent's terminal: lines may be broken`, c.out.String())
	c = newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "show", "t-2"), c.err.String())
	require.NotContains(t, c.out.String(), "terminal")
}

// TestFollowFromTerminal checks that "task run --follow" explains such a result at the end.
func TestFollowFromTerminal(t *testing.T) {
	t.Parallel()
	s, server, _ := stubWithAgent(t)
	yes := true
	s.unary = func(_ context.Context, method string, _ any) error {
		if strings.HasSuffix(method, "/ShowTask") {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.tasks[0].FromTerminal = &yes
		}
		return nil
	}
	c := newCommand(server)
	require.Equal(t, ExitOK, c.run("task", "run", "papi", "echo one", "--follow"), c.err.String())
	require.Equal(t, "one\n", c.out.String())
	require.Contains(t, c.err.String(), "The result was read from the agent's terminal")
}
