package cagent

import "fleet/internal/fleet"

// hostError returns BACKEND_UNAVAILABLE for an operation that failed on this machine and may succeed later. what says
// which operation failed. The cause is only logged, because callers must not see it.
func hostError(what string, err error) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s; the server's log has the cause", what).WithCause(err)
}
