package process

import (
	"os/exec"
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
	dir := "DIR=" + t.TempDir()
	first, second, sibling := start(dir+"/one/"), start(dir+"/two/"), start(dir+"x/one/")
	require.Zero(t, KillMarked(dir+"/one/"))
	requireKilled(t, first)
	requireAlive(t, second)
	require.Zero(t, KillMarked(dir+"/"))
	requireKilled(t, second)
	requireAlive(t, sibling)
}
