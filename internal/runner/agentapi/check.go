package agentapi

import (
	"context"
	"io"

	"fleet/internal/fleet"
)

// Check implements fleet.Runner.
func (w runner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, fleet.Errorf(fleet.ReasonUnimplemented, "cannot check the work of agent %q, because Fleet reaches it only through its terminal: use a template with fleet-runner", w.agent.Name)
}

// Bundle implements fleet.Runner.
func (w runner) Bundle(context.Context, io.Writer) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "cannot bundle the work of agent %q, because Fleet reaches it only through its terminal: use a template with fleet-runner", w.agent.Name)
}
