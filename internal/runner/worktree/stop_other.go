//go:build unix && !linux

package worktree

import (
	"os/exec"
	"syscall"
)

// stopGracefully ends git when its context is done, in a way that lets it remove its locks.
func stopGracefully(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
}
