package local_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/local"
	"fleet/internal/runner/sandbox"
	"fleet/internal/runner/shim"
	"fleet/internal/unprivileged"
	"fleet/internal/waittest"
)

// TestShimKilled checks that a run whose supervisor was killed fails, and that all its processes have ended.
func TestShimKilled(t *testing.T) {
	t.Parallel()
	w, a := newShellPlace(t)
	r := w.startUntil(a, `setsid sleep 3600 & echo begun; sleep 3600`, "begun")

	require.NoError(t, syscall.Kill(supervisorPID(t, shim.Run(w.runDir(a, r))), syscall.SIGKILL))
	output, o := w.follow(a, r)
	require.Equal(t, "begun\n", output)
	require.Equal(t, fleet.TaskFailed, o.Status)
	c, err := shim.Run(w.runDir(a, r)).Claim()
	require.NoError(t, err)
	require.Equal(t, "the process that supervised the run was killed; "+map[bool]string{
		true: "all processes of the run", false: "the processes of the run that were found",
	}[c.PIDNamespace]+" were killed too", o.Reason)
	require.Equal(t, fleet.CodeRunnerLost, o.ReasonCode)
	require.Empty(t, runProcessesIn(t, w.dir))
	_, same := w.follow(a, r)
	require.Equal(t, o, same)
	require.NoError(t, w.Connect(a).Interrupt(w.ctx, r, true), "an interrupt of a run that has ended must succeed")

	require.Equal(t, "next", w.mustRun(a, "echo next"))
}

// TestShimKilledWithHiddenProcess checks that a program without an environment does not survive a killed supervisor, and that the
// programs of a run see no other processes.
func TestShimKilledWithHiddenProcess(t *testing.T) {
	t.Parallel()
	requireSandbox(t)
	if o, hasPIDNamespace := killWithHiddenProcess(t, ""); hasPIDNamespace {
		require.Contains(t, o.Reason, "all processes of the run were killed too")
	} else {
		t.Skip("this machine allows no pid namespaces")
	}
}

// TestHiddenProcessOfOrdinaryUser is like TestShimKilledWithHiddenProcess, on a server that is not root. Its runs need a user
// namespace.
func TestHiddenProcessOfOrdinaryUser(t *testing.T) {
	if unprivileged.Rerun(t) {
		return
	}
	requireSandbox(t)
	if _, hasPIDNamespace := killWithHiddenProcess(t, ""); !hasPIDNamespace {
		t.Skip("this machine allows no user namespaces")
	}
}

// TestHiddenProcessWithoutNamespace is like TestShimKilledWithHiddenProcess, for runs without a pid namespace: either the
// machine does not allow one, or the runs are not confined.
func TestHiddenProcessWithoutNamespace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows the limits of other processes")
	}
	_, hasPIDNamespace := killWithHiddenProcess(t, sandbox.None)
	require.False(t, hasPIDNamespace)
	if unprivileged.RerunWithoutNamespaces(t) {
		return
	}
	requireSandbox(t)
	_, hasPIDNamespace = killWithHiddenProcess(t, "")
	require.False(t, hasPIDNamespace)
}

// killWithHiddenProcess kills the supervisor of a run that has started a program without an environment. It fails the test if the
// program survives. hasPIDNamespace reports whether the run had its own pid namespace.
func killWithHiddenProcess(t *testing.T, mode sandbox.Mode) (o fleet.Outcome, hasPIDNamespace bool) {
	t.Helper()
	w := newTestPlace(t, func(c *local.Config) { c.Sandbox = mode })
	a := w.provisionIn("shell")
	script, mark := markScript(`( env -i setsid bash -c 'cd /; echo hidden; exec sleep 3600' & ); sleep 0.1; cat /proc/[0-9]*/cmdline | grep -aq '[-]test\.' && echo seen; echo begun; sleep 3600`)
	r := w.startUntil(a, script, "begun")
	run := shim.Run(w.runDir(a, r))
	c, err := run.Claim()
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(supervisorPID(t, run), syscall.SIGKILL))
	output, o := w.follow(a, r)
	requireGone(t, mark)
	if c.PIDNamespace {
		require.NotContains(t, output, "seen", "a program must not see the command lines of other processes, such as this test")
	}
	return o, c.PIDNamespace
}

// TestShimHangs checks that a run can be killed when its supervisor hangs.
func TestShimHangs(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("it needs /proc to find out whether a process is stopped")
	}
	w, a := newShellPlace(t)
	r := w.startUntil(a, "echo begun; sleep 3600", "begun")
	require.True(t, suspendProcess(supervisorPID(t, shim.Run(w.runDir(a, r)))))
	w.kill(a, r)
	_, o := w.follow(a, r)
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Equal(t, "the process that supervised the run did not answer and was killed; all processes of the run were killed too", o.Reason)
}

// TestSuspendedSupervisor checks that a run whose supervisor is suspended ends at its time limit. All processes of the
// run must end too, even processes that cannot be recognised by their environment.
func TestSuspendedSupervisor(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can the supervisor adopt orphaned processes")
	}
	waittest.WithGrowingLimit(t, 500*time.Millisecond, func(limit time.Duration) (inTime bool) {
		w := newTestPlace(t, func(c *local.Config) {
			c.Projects = []local.Project{{Name: "shell", Timeout: limit}}
		})
		a := w.provisionIn("shell")
		script, mark := markScript(`( env -i setsid bash -c 'echo pid $$; exec sleep 3600' & ); sleep 3600`)
		r := w.start(a, script)
		if !w.followPrints(a, r, "pid ") || !suspendProcess(supervisorPID(t, shim.Run(w.runDir(a, r)))) {
			return false
		}
		_, o := w.follow(a, r)
		require.Equal(t, fleet.TaskFailed, o.Status)
		require.Equal(t, fmt.Sprintf("it ran longer than its time limit of %s", limit), o.Reason)
		requireGone(t, mark)
		return true
	})
}

// suspendProcess suspends the process and waits until it is suspended. It returns false if the process has ended.
func suspendProcess(pid int) bool {
	err := syscall.Kill(pid, syscall.SIGSTOP)
	for status := []byte(nil); err == nil && !bytes.Contains(status, []byte("T (stopped)")); runtime.Gosched() {
		if bytes.Contains(status, []byte("Z (zombie)")) {
			return false
		}
		status, err = os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	}
	return err == nil
}

// TestShimTerminated simulates a shutdown of the machine: the supervisor gets SIGTERM and ends its run cleanly. Nobody has asked
// for the run to end, so it counts as failed.
func TestShimTerminated(t *testing.T) {
	t.Parallel()
	w := newTestPlace(t, func(c *local.Config) { c.StopGrace = waittest.Limit })
	a := w.provisionIn("shell")
	r := w.startUntil(a, "trap 'echo tidied up; exit 0' TERM; echo begun; while true; do sleep 0.05; done", "begun")
	require.NoError(t, syscall.Kill(supervisorPID(t, shim.Run(w.runDir(a, r))), syscall.SIGTERM))
	output, o := w.follow(a, r)
	require.Equal(t, "begun\ntidied up\n", strings.ReplaceAll(output, "Terminated\n", "")) // bash prints "Terminated" for its sleep
	require.Equal(t, fleet.TaskFailed, o.Status)
	require.Equal(t, "the process that supervised the run was told to end, for example by a shutdown of its machine, and has ended the run", o.Reason)
}

// supervisorPID returns the pid of the run's supervisor.
func supervisorPID(t *testing.T, run shim.Run) int {
	t.Helper()
	c, err := run.Claim()
	require.NoError(t, err)
	require.NotNil(t, c)
	return c.Shim.PID
}
