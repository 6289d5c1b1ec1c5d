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

// home is the home directory of the person's workspace, as the test bed has it.
func (b *bed) home(t testing.TB, name string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join(b.dir, "ws/by-name", b.user, name))
	require.NoError(t, err)
	return dir
}

// process is a program that runs in a workspace.
type process struct {
	pid  int
	argv []string
	env  []string
}

// processes returns what runs with the home.
func processes(home string) (found []process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		vars := strings.Split(string(env), "\x00")
		if !slices.Contains(vars, "HOME="+home) {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && len(argv) > 0 { // a zombie has none
			found = append(found, process{pid, strings.Split(strings.TrimRight(string(argv), "\x00"), "\x00"), vars})
		}
	}
	return found
}

// ofTask returns what runs of the task in the home: its program, what that has started, and what supervises it.
func ofTask(home, id string) (found []process) {
	for _, p := range processes(home) {
		if slices.Contains(p.env, "FLEET_TASK_ID="+id) {
			found = append(found, p)
		}
	}
	return found
}

// runners returns the processes of fleet-runner that serve in the home.
func runners(home string) (pids []int) {
	for _, p := range processes(home) {
		if len(p.argv) > 1 && filepath.Base(p.argv[0]) == "fleet-runner" && p.argv[1] == "serve" {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// killRunner ends the workspace's runner as a crash does. It is started again by itself.
func (b *bed) killRunner(t testing.TB, name string) {
	t.Helper()
	home := b.home(t, name)
	var pids []int
	b.eventually(t, "there is a runner", func() bool {
		pids = runners(home)
		return len(pids) == 1
	})
	require.NoError(t, syscall.Kill(pids[0], syscall.SIGKILL))
}

// restartAgent ends the workspace's Coder agent as a crash does, and starts it again. What it started goes on.
func (b *bed) restartAgent(t testing.TB, name string) {
	t.Helper()
	home := b.home(t, name)
	b.kill(t, name, "agent")
	b.script(t, filepath.Join(b.dir, "lib/machine-up.sh"), home)
}

// restartCoder ends the Coder server as a crash does, and starts it again.
func (b *bed) restartCoder(t testing.TB) {
	t.Helper()
	b.script(t, "../../../testdata/coder-testbed/server-up.sh", "--kill")
}

// script runs a script of the test bed.
func (b *bed) script(t testing.TB, path string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), "TESTBED_DIR="+b.dir)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", path, out)
}
