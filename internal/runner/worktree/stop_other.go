//go:build unix && !linux

package worktree

import (
	"os/exec"
	"syscall"
)

// stopGracefully makes git end with SIGTERM, so that it removes its locks, when its context is done.
func stopGracefully(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
}
