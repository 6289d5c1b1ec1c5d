package shim

import (
	"syscall"

	"fleet/internal/runner/process"
)

const killSignal = syscall.SIGKILL

// killGroup kills the process group that the process leads, when it is the very process. A process that is a zombie
// still keeps its pid, so the group is its own.
func killGroup(leader process.ID) {
	if now, err := process.Of(leader.PID); err == nil && now == leader {
		_ = syscall.Kill(-leader.PID, killSignal)
	}
}
