//go:build unix && !linux

package worktree

import (
	"os/exec"
	"syscall"
)

// gentle makes git end when its context is done, and lets it remove its locks then.
func gentle(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
}
