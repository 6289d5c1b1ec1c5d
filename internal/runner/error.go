package runner

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"fleet/internal/fleet"
)

// HostError returns an error for a failure of this machine, for example a full disk or missing permissions. The failure
// may be temporary. If the cause is a context's error, HostError returns that error.
func HostError(what string, cause error) error {
	for _, ctxErr := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(cause, ctxErr) {
			return ctxErr
		}
	}
	reason := "see the log of the program that runs the agent"
	var pe *fs.PathError
	if errors.As(cause, &pe) {
		reason = pe.Path + ": " + pe.Err.Error()
	}
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s: %s", what, reason).WithCause(cause)
}

// isMissing reports whether err means that a path does not exist. That is also the case if the agent has replaced a
// directory of the path by a file.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
