package worktree

import (
	"os/exec"
	"syscall"
)

// stopGracefully ends git when its context is done or its server is killed, in a way that lets it remove its locks.
func stopGracefully(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
}
