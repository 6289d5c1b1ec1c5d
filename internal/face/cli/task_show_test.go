package cli

import (
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
	out, _ := mustRun(t, server, "task", "show", "t-1")
	require.Regexp(t, `(?m)^Read from +the agent's terminal: lines may be broken`, out)
	out, _ = mustRun(t, server, "task", "show", "t-2")
	require.NotContains(t, out, "terminal")
}

func TestShowChecks(t *testing.T) {
	t.Parallel()
	s := newStub(t)
	code := int32(3)
	why := "it ran longer than its limit of 1s"
	s.tasks = append(s.tasks, &fleetv1.TaskDetail{Id: "t-1", Status: fleetv1.Task_failed, Checks: &fleetv1.TaskChecks{Tries: 2, Results: []*fleetv1.TaskCheck{
		{Command: "make lint", Status: fleetv1.TaskCheck_passed, ExitCode: new(int32)},
		{Command: "make\ttest", Status: fleetv1.TaskCheck_failed, ExitCode: &code, Output: "no compiler\n"},
		{Command: "sleep 9", Status: fleetv1.TaskCheck_timed_out, Reason: &why},
	}}})
	server, _ := s.listen(t, "")
	out, stderr, exit := runFleet(server, "task", "show", "t-1")
	require.Equal(t, ExitOK, exit, stderr)
	for _, want := range []string{
		`(?m)^Tries +2$`, `(?m)^Check +passed: make lint$`, `(?m)^Check +failed \(exit code 3\): make test$`,
		`(?m)^Check +timed_out \(it ran longer than its limit of 1s\): sleep 9$`, `(?m)^Check output\n  \$ make test\n  no compiler$`,
	} {
		require.Regexp(t, want, out)
	}
}
