package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// home returns the home directory of the person's workspace in the test bed.
func (b *testbed) home(t testing.TB, name string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join(b.dir, "ws/by-name", b.user, name))
	require.NoError(t, err)
	return dir
}

// process is a process of this machine.
type process struct {
	pid  int
	argv []string
	env  []string
}

// allProcesses returns the processes of this machine, except zombies and kernel threads. If the environment of a process cannot be read, env has only
// an empty string.
func allProcesses() (found []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && len(argv) > 0 { // zombies and kernel threads have no command line
			found = append(found, process{pid, strings.Split(strings.TrimRight(string(argv), "\x00"), "\x00"), strings.Split(string(env), "\x00")})
		}
	}
	return found
}

// processes returns the processes that have this HOME in their environment.
func processes(home string) (found []process) {
	return slices.DeleteFunc(allProcesses(), func(p process) bool { return !slices.Contains(p.env, "HOME="+home) })
}

// taskProcesses returns the processes of the task: its program, the program's descendants, and the supervisor.
func taskProcesses(home, id string) (found []process) {
	for _, p := range processes(home) {
		if slices.Contains(p.env, "FLEET_TASK_ID="+id) {
			found = append(found, p)
		}
	}
	return found
}

// runners returns the process ids of the fleet-runners with this HOME.
func runners(home string) (pids []int) {
	for _, p := range processes(home) {
		if len(p.argv) > 1 && filepath.Base(p.argv[0]) == "fleet-runner" && p.argv[1] == "serve" {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// killRunner kills the workspace's runner. The workspace then restarts the runner.
func (b *testbed) killRunner(t testing.TB, name string) {
	t.Helper()
	home := b.home(t, name)
	var pids []int
	b.eventually(t, "the workspace has a runner", func() bool {
		pids = runners(home)
		return len(pids) == 1
	})
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
}

// restartAgent kills and restarts the workspace's Coder agent. Processes that it started continue.
func (b *testbed) restartAgent(t testing.TB, name string) {
	t.Helper()
	home := b.home(t, name)
	b.killProcess(t, name, "agent")
	b.runScript(t, filepath.Join(b.dir, "lib/machine-up.sh"), home)
}

// restartCoder kills and restarts the Coder server.
func (b *testbed) restartCoder(t testing.TB) {
	t.Helper()
	b.runScript(t, "../../../testdata/coder-testbed/server-up.sh", "--kill")
}

// runScript runs a script of the test bed, and requires success.
func (b *testbed) runScript(t testing.TB, path string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "TESTBED_DIR="+b.dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", path, out)
}
