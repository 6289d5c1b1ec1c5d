package worktree

import (
	"os/exec"
	"syscall"
)

// gentle makes git end when its context is done or its server is killed, and lets it remove its locks then.
func gentle(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
}
