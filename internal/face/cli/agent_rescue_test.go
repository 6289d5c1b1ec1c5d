package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// runScript runs the script in the directory and returns its output.
func runScript(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// TestAgentRescue rescues an agent's work into a clone of its project, twice, into repositories where that is impossible, and
// into a file.
func TestAgentRescue(t *testing.T) {
	t.Parallel()
	origin, clone, dir := t.TempDir(), t.TempDir(), t.TempDir()
	runScript(t, origin, `git init -q -b main; echo one >file; git add file; git commit -qm one`)
	runScript(t, clone, "git clone -q "+origin+" .")
	bundle := filepath.Join(dir, "papi.bundle")
	runScript(t, origin, `git checkout -qb fleet/papi; echo two >file; git commit -qam two
		git branch tree/x
		git checkout -q --detach; echo three >file; git commit -qam three
		git update-ref refs/fleet/uid/last HEAD; git update-ref refs/fleet/uid/task-1 HEAD
		git update-ref refs/fleet/uid/tags/last fleet/papi
		git bundle create -q `+bundle+` fleet/papi tree/x refs/fleet/uid/last refs/fleet/uid/tags/last refs/fleet/uid/task-1 ^main`)
	s := newStub(t)
	server, _ := s.listen(t, "")

	out, stderr, code := runFleet(server, "agent", "rescue", "papi", "--into", clone)
	require.Equal(t, ExitNotFound, code, stderr)
	require.Empty(t, out)

	var err error
	s.bundle, err = os.ReadFile(bundle)
	require.NoError(t, err)
	for range 2 {
		out, _ = mustRun(t, server, "agent", "rescue", "papi@alice", "--into", clone)
		require.Equal(t, "rescue/papi/fleet/papi\nrescue/papi/tree/x\nrescue/papi.tree\n", out)
		require.Equal(t, "two\nthree\nthree\n", runScript(t, clone, "git show rescue/papi/fleet/papi:file; git show rescue/papi.tree:file; git show refs/fleet/uid/task-1:file"))
		require.Equal(t, "one\n", runScript(t, clone, "cat file"), "the checked-out files must stay unchanged")
	}

	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	err = (&bundleFetch{agent: "papi", dir: clone, gitPath: "/bin/sh"}).fetch(interrupted)
	require.Equal(t, errInterrupted, err, "Ctrl-C stops git, so git's error is not the cause")

	unrelated := t.TempDir()
	runScript(t, unrelated, "git init -q")
	_, stderr, code = runFleet(server, "agent", "rescue", "papi", "--into", unrelated)
	require.Equal(t, ExitError, code, stderr)
	require.Contains(t, stderr, "prerequisite")
	_, stderr, code = runFleet(server, "agent", "rescue", "papi", "--into", dir)
	require.Equal(t, ExitUsage, code, stderr)
	require.Contains(t, stderr, "not in a git repository")

	file := filepath.Join(t.TempDir(), "x.bundle")
	mustRun(t, server, "agent", "rescue", "papi", "-o", file)
	requireOnlyFile(t, file, string(s.bundle))
	out, _ = mustRun(t, server, "agent", "rescue", "papi", "-o", "-")
	require.Equal(t, string(s.bundle), out)
}
