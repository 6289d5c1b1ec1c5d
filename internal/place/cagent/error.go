package cagent

import "fleet/internal/fleet"

// hostError returns BACKEND_UNAVAILABLE for something that failed on this machine and may work later. what says what
// failed. The cause is only logged, because callers must not see it.
func hostError(what string, err error) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s; the server's log has the cause", what).WithCause(err)
}
