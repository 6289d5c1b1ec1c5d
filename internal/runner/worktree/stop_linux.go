package worktree

import (
	"os/exec"
	"syscall"
)

// stopGracefully makes git end with SIGTERM, so that it removes its locks, when its context is done or the server is
// killed.
func stopGracefully(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
}
