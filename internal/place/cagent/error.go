package cagent

import "fleet/internal/fleet"

// hostError returns an error of this machine, which may be temporary.
func hostError(what string, err error) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s; the server's log has the cause", what).WithCause(err)
}
