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
	out, _ := mustRun(t, server, "task", "show", "t-1")
	require.Regexp(t, `(?m)^Read from +the agent's terminal: lines may be broken`, out)
	out, _ = mustRun(t, server, "task", "show", "t-2")
	require.NotContains(t, out, "terminal")
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
	out, stderr := mustRun(t, server, "task", "run", "papi", "echo one", "--follow")
	require.Equal(t, "one\n", out)
	require.Contains(t, stderr, "The result was read from the agent's terminal")
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

func TestTaskDiff(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	out, _ := mustRun(t, server, "task", "diff", "t-1", "--path", "main.go")
	require.Equal(t, "diff main.go\n+\\\xff\n", out)

	out, _ = mustRun(t, server, "task", "diff", "t-1", "-o", "json")
	require.Contains(t, out, `"patch_encoding": "base64"`)

	out, _ = mustRun(t, server, "task", "diff", "t-1", "--stat")
	require.Regexp(t, `(?m)^added +3 +0 +main.go$`, out)
	require.Regexp(t, `(?m)^renamed +binary +binary +a.png -> b.png$`, out)

	out, stderr := mustRun(t, server, "task", "diff", "t-unknown", "--stat")
	said := out + stderr
	require.Contains(t, said, "It is not known which files the task changed.")
	require.Contains(t, said, "not known: the disk is full")
	require.NotContains(t, said, "changed no files")

	require.Equal(t, ExitUsage, newCommand(server).run("task", "diff", "t-1", "--stat", "--path", "x"))
	for flag, since := range map[string]string{"--since-review": "review", "--whole": "work"} {
		out, _ := mustRun(t, server, "task", "diff", "t-1", flag)
		require.Equal(t, "diff "+since+"\n+\\\xff\n", out)
	}
	require.Equal(t, ExitUsage, newCommand(server).run("task", "diff", "t-1", "--since-review", "--whole"))
}

// TestDiffSaysWhatIsMissing checks that a diff that goes to a pipe reports on standard error which changes were not kept, even
// if it is empty.
func TestDiffSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	for _, more := range [][]string{nil, {"--stat"}} {
		out, text := mustRun(t, server, append([]string{"task", "diff", "incomplete"}, more...)...)
		require.NotContains(t, out, "big")
		require.Contains(t, text, "Not kept: big (larger than 50 MiB)")
		require.NotContains(t, text, "\x1b")
	}
}

func TestTaskOutput(t *testing.T) {
	t.Parallel()
	server, _ := newStub(t).listen(t, "")
	out, stderr := mustRun(t, server, "task", "output", "t-1")
	require.Equal(t, "beginning\n+\\\xff\n", out)
	require.Contains(t, stderr, "5 bytes before byte 15 are missing")

	out, _ = mustRun(t, server, "task", "output", "t-1", "--tail", "2")
	require.Equal(t, "x\n", out)

	out, _ = mustRun(t, server, "task", "output", "t-1", "-o", "json")
	require.JSONEq(t, `{"output":"YmVnaW5uaW5nCitc/wo=","output_encoding":"base64","offset":0,"size":20,"gap_offset":10,"gap_size":5}`, out)

	require.Equal(t, ExitUsage, newCommand(server).run("task", "output", "t-1", "--tail", "2", "--offset", "1"))
	require.Equal(t, ExitUsage, newCommand(server).run("task", "output", "t-1", "--tail", "0"))
	require.Equal(t, ExitUsage, newCommand(server).run("task", "output", "t-1", "--offset=-1"))
}
