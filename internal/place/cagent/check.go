//go:build cgo

package cagent

import (
	"context"
	"io"

	"fleet/internal/fleet"
)

// Check implements fleet.Runner.
func (inProcess) Check(context.Context, fleet.Run, fleet.Check) (fleet.CheckResult, error) {
	return fleet.CheckResult{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent is a model in the server's process, and has no workspace for checks")
}

// Output implements fleet.Runner.
func (inProcess) Output(context.Context, fleet.Run, int64, int) (fleet.OutputPage, error) {
	return fleet.OutputPage{}, fleet.Errorf(fleet.ReasonUnimplemented, "the agent is a model and has no raw output")
}

// Bundle implements fleet.Runner.
func (inProcess) Bundle(context.Context, io.Writer) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent has no repository that Fleet knows")
}
