package npm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// home is an empty home directory for the programs of a test, which know nothing else of this machine. When the test
// ends, none of them may be left.
type home string

func newHome(t *testing.T) home {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	h := home(dir)
	require.NoError(t, os.Mkdir(h.path("tmp"), 0o700))
	t.Cleanup(func() {
		left := h.processes()
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		require.Empty(t, left, "processes are left")
	})
	return h
}

func (h home) path(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

// env is an environment with this home, these variables and nothing of the caller's but its PATH.
func (h home) env(more ...string) []string {
	return append([]string{"HOME=" + string(h), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + h.path("tmp")}, more...)
}

// process is a program that runs.
type process struct {
	pid     int
	command string
}

// processes returns what runs with this home, and with these variables. Where there is no /proc it returns nothing.
func (h home) processes(with ...string) []process {
	var found []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		vars := strings.Split(string(env), "\x00")
		// A confined agent has a home of its own in the data of the server, which is in this one.
		here := slices.ContainsFunc(vars, func(v string) bool { return v == "HOME="+string(h) || strings.HasPrefix(v, "HOME="+string(h)+"/") })
		if !here || slices.ContainsFunc(with, func(v string) bool { return !slices.Contains(vars, v) }) {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(argv) > 0 { // a zombie has none
			found = append(found, process{pid, strings.TrimSpace(strings.ReplaceAll(string(argv), "\x00", " "))})
		}
	}
	return found
}

// isolate makes the program the leader of a group, which is killed as a whole when its context ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
}
