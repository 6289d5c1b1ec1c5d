package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/runner/shim"
	"fleet/internal/waittest"
)

// TestCheckAfterCrash leaves the files of a check whose start was interrupted. The next calls must run the command once.
func TestCheckAfterCrash(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	for i, leaveFiles := range []func(shim.Run){
		func(shim.Run) {},
		func(run shim.Run) { // before the supervisor was started
			require.NoError(t, os.Mkdir(string(run), 0o700))
			require.NoError(t, os.WriteFile(run.Path(specFile), []byte(`{}`), 0o600))
		},
		func(run shim.Run) { // while the directory was created
			require.NoError(t, os.Mkdir(x.home.path("runs", newPrefix+"1"), 0o700))
		},
	} {
		r := x.runToEnd(ctx, "task-"+string(rune('a'+i)))
		c := fleet.Check{ID: "1", Command: "echo $FLEET_TASK_ID >>times; exit 3", Timeout: waittest.Limit}
		leaveFiles(x.home.checkRun(r, c.ID, 1))
		for range 2 {
			res, err := x.agent.Check(ctx, r, c)
			require.NoError(t, err)
			require.Equal(t, fleet.CheckFailed, res.Status)
			require.Equal(t, 3, *res.ExitCode)
		}
	}
	require.Equal(t, "task-a\ntask-b\ntask-c\n", x.times())
}

// TestCheckAgain kills the supervisor of a check, as a failure of the machine would. The command must run a second time, but not a
// third time.
func TestCheckAgain(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	for i, command := range []string{"echo once >>times; [ -e again ] || { touch again; kill -9 $PPID; sleep 3600; }", "echo twice >>times; kill -9 $PPID; sleep 3600"} {
		r := x.runToEnd(ctx, "task-"+string(rune('a'+i)))
		res, err := x.agent.Check(ctx, r, fleet.Check{ID: "1", Command: command, Timeout: waittest.Limit})
		require.NoError(t, err)
		require.Equal(t, []fleet.CheckStatus{fleet.CheckPassed, fleet.CheckFailed}[i], res.Status)
		require.Equal(t, i == 1, strings.Contains(res.Reason, "was killed"), res.Reason)
	}
	require.Equal(t, "once\nonce\ntwice\ntwice\n", x.times())
}

// TestSuspendedCheck suspends the supervisor of a check. The time limit must still apply.
func TestSuspendedCheck(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	x.host.config.StopGrace = 100 * time.Millisecond
	r := x.runToEnd(ctx, "task-1")
	// The command waits until the supervisor has recorded its start.
	command := "while [ ! -s " + x.home.checkRun(r, "1", 1).Path("child") + " ]; do sleep 0.05; done; sleep 0.2; kill -STOP $PPID; sleep 3600"
	res, err := x.agent.Check(ctx, r, fleet.Check{ID: "1", Command: command, Timeout: time.Second})
	require.NoError(t, err)
	require.Equal(t, fleet.CheckTimedOut, res.Status)
}

// TestCheckOutput checks the limit of a check's output, and that many checks do not remove the run of the task.
func TestCheckOutput(t *testing.T) {
	t.Parallel()
	x, ctx := newFixture(t)
	r := x.runToEnd(ctx, "task-1")
	for i := range maxKeptRuns + 2 {
		c := fleet.Check{ID: string(rune('a' + i)), Command: "head -c 20000 /dev/zero | tr '\\0' x; echo; echo end", Timeout: waittest.Limit}
		res, err := x.agent.Check(ctx, r, c)
		require.NoError(t, err)
		require.Len(t, res.Output, fleet.MaxCheckOutput)
		require.True(t, res.Truncated)
		require.True(t, strings.HasSuffix(res.Output, "x\nend\n"))
	}
	require.FileExists(t, filepath.Join(string(x.home.run(r.TaskID)), "output"))
}
