package cagent

import "fleet/internal/fleet"

// hostError is an error of this machine. It may pass.
func hostError(what string, err error) *fleet.Error {
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s; the server's log has the cause", what).WithCause(err)
}
