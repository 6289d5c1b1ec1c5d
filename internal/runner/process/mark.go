package process

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// isValidMark reports whether the variable can mark processes. An empty variable would match every process of the machine, and the
// value "/" every marked process.
func isValidMark(variable string) bool {
	name, value, ok := strings.Cut(variable, "=")
	return ok && name != "" && strings.Trim(value, "/") != ""
}

// KillMarked kills every other process that has the variable in its environment or was marked by Tag, and the processes that
// those processes start in the meantime. The variable is "NAME=value", or "NAME=directory/" for all values within the directory.
// KillMarked returns the number of processes that it could not kill. It also finds orphans, which are no longer descendants. It
// kills nothing and returns 0 if the variable is invalid, and on systems that do not show the environments of processes.
func KillMarked(variable string) int {
	if !isValidMark(variable) {
		return 0
	}
	unkilled := 0
	for range 100 { // each pass kills the processes that were started during the previous pass
		ids := markedProcesses(variable)
		unkilled = 0
		for _, id := range ids {
			if err := id.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
				unkilled++
			}
		}
		if len(ids) == unkilled {
			break
		}
	}
	return unkilled
}
