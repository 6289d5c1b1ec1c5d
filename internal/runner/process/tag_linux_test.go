package process

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTag checks that KillMarked finds a tagged process, and no process of another run.
func TestTag(t *testing.T) {
	t.Parallel()
	start := func(variable string) *exec.Cmd {
		cmd := startSleeper(t)
		tag := tagOf(variable)
		require.NoError(t, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: tag, Max: tag}, nil))
		return cmd
	}
	gone := func(cmd *exec.Cmd) {
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	}
	alive := func(cmd *exec.Cmd) {
		id, err := Of(cmd.Process.Pid)
		require.NoError(t, err)
		require.True(t, id.Alive())
	}
	dir := "DIR=" + t.TempDir()
	one, two, other := start(dir+"/one/"), start(dir+"/two/"), start(dir+"x/one/")
	require.Zero(t, KillMarked(dir+"/one/"))
	gone(one)
	alive(two)
	require.Zero(t, KillMarked(dir+"/"))
	gone(two)
	alive(other)
}
