package shim

import (
	"syscall"

	"fleet/internal/runner/process"
)

const killSignal = syscall.SIGKILL

// killGroup kills the process group that the process leads, if the pid still belongs to the process. A zombie keeps its
// pid, so its group cannot belong to another process.
func killGroup(leader process.ID) {
	if now, err := process.Of(leader.PID); err == nil && now == leader {
		_ = syscall.Kill(-leader.PID, killSignal)
	}
}
