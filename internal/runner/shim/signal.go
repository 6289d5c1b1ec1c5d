package shim

import (
	"syscall"

	"fleet/internal/runner/process"
)

const killSignal = syscall.SIGKILL

// killGroup kills the process group of the process, if the pid still belongs to it. A zombie keeps its pid, so the
// group is still its own.
func killGroup(leader process.ID) {
	if now, err := process.Of(leader.PID); err == nil && now == leader {
		_ = syscall.Kill(-leader.PID, killSignal)
	}
}
