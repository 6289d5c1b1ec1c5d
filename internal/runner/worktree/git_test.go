package worktree

import (
	"os"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestScrub(t *testing.T) {
	t.Parallel()
	require.Equal(t, "://host", Scrub("://user:pass@host"))
}

// TestOutputOfGit runs a git command whose child keeps the output open, as a shared connection of ssh does. The output
// must be complete when git has ended, although the child still runs.
func TestOutputOfGit(t *testing.T) {
	t.Parallel()
	g := New(os.Environ(), t.TempDir())
	out, err := g.run(t.Context(), newRepository(t), "-c", "alias.shared=!sleep 3600 & echo $!; exit 0; :", "shared")
	require.NoError(t, err)
	pid, err := strconv.Atoi(out)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}
