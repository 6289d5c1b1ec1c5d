package npm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"
)

// home is a home directory for the programs of a test. It is empty at first, so the programs see no settings of this
// machine. No program may still run when the test ends.
type home string

func newHome(t *testing.T) home {
	t.Helper()
	temp, err := filepath.EvalSymlinks(os.TempDir())
	require.NoError(t, err)
	// All homes have paths of the same length, because long texts with paths are truncated, including those in golden files.
	h := home(filepath.Join(temp, fmt.Sprintf("fleet-npm-%08x", rand.Uint32())))
	require.NoError(t, os.Mkdir(string(h), 0o700))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(string(h))) })
	require.NoError(t, os.Mkdir(h.path("tmp"), 0o700))
	t.Cleanup(func() {
		left := h.processes()
		for _, p := range left {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		require.Empty(t, left, "no process may be left")
	})
	return h
}

func (h home) path(parts ...string) string {
	return filepath.Join(append([]string{string(h)}, parts...)...)
}

// writeYAML writes the value as YAML into the file.
func (h home) writeYAML(t *testing.T, file string, value any) {
	t.Helper()
	data, err := yaml.Marshal(value)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(h.path(file), data, 0o600))
}

// writeJSON writes the value as JSON into the file.
func (h home) writeJSON(t *testing.T, file string, value any) {
	t.Helper()
	require.NoError(t, os.WriteFile(h.path(file), []byte(asJSON(value)), 0o600))
}

// writeMCPConfig writes mcp.json with one MCP server for Claude Code.
func (h home) writeMCPConfig(t *testing.T, name string, server map[string]any) {
	t.Helper()
	h.writeJSON(t, "mcp.json", map[string]any{"mcpServers": map[string]any{name: server}})
}

// env returns an environment with this HOME, a TMPDIR in it, the PATH of the test, and the given variables.
func (h home) env(more ...string) []string {
	return append([]string{"HOME=" + string(h), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + h.path("tmp")}, more...)
}

// process is a running process.
type process struct {
	pid     int
	command string
}

// processes returns the processes that have these variables in their environment, and whose HOME is this directory or below it.
// It returns none on systems without /proc.
func (h home) processes(with ...string) []process {
	var found []process
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		vars := strings.Split(string(env), "\x00")
		// A confined agent has its own HOME in the server's data directory, which is below h.
		here := slices.ContainsFunc(vars, func(v string) bool { return v == "HOME="+string(h) || strings.HasPrefix(v, "HOME="+string(h)+"/") })
		if !here || slices.ContainsFunc(with, func(v string) bool { return !slices.Contains(vars, v) }) {
			continue
		}
		argv, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(argv) > 0 { // zombies and kernel threads have no command line
			found = append(found, process{pid, strings.TrimSpace(strings.ReplaceAll(string(argv), "\x00", " "))})
		}
	}
	return found
}

// isolate makes the program the leader of a process group, which is killed when its context ends.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
}
