//go:build unix

// Package unprivileged runs tests again as a user without rights if root has started them, because root can do more than the
// server usually can.
package unprivileged

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// nobody is the id of a user and of a group without any rights or files.
const nobody = 65534

// Rerun reports whether this process is root. If so, it first runs the calling test again in a process of an unprivileged
// user. The test then fails or is skipped as it was there, and the caller must return.
func Rerun(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	rerunWith(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
	return true
}

// rerunWith runs the calling test again in a process with the attributes. If command is given, the process runs it with the
// test program and its arguments appended.
func rerunWith(t *testing.T, attr *syscall.SysProcAttr, command ...string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "unprivileged-*") // t.TempDir is in a directory that only root can use
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chown(dir, nobody, nobody))
	self, err := os.Executable()
	require.NoError(t, err)
	program, err := os.ReadFile(self) // the test program is in a directory that only root can use, too
	require.NoError(t, err)
	executable := filepath.Join(dir, "test")
	require.NoError(t, os.WriteFile(executable, program, 0o755))
	command = append(command, executable, "-test.v", "-test.run=^"+t.Name()+"$")
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	if !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Skip(string(out))
	}
}
