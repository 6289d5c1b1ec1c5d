package agentapi

import (
	"context"
	"io"

	"fleet/internal/fleet"
)

// Check implements fleet.Runner.
func (w runner) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, fleet.Errorf(fleet.ReasonUnimplemented, "cannot check the work of agent %q: Fleet reads it from its terminal", w.agent.Name)
}

// Bundle implements fleet.Runner.
func (w runner) Bundle(context.Context, io.Writer) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the work of agent %q is unknown: Fleet reads it from its terminal", w.agent.Name)
}
