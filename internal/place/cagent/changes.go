//go:build cgo

package cagent

import (
	"context"

	"fleet/internal/fleet"
)

var errChanges = fleet.Errorf(fleet.ReasonUnimplemented, "the agent has no repository that Fleet knows: look at its files in its workspace")

// Changes implements fleet.Runner.
func (inProcess) Changes(context.Context, fleet.Run) (*fleet.Changes, error) { return nil, errChanges }

// Patch implements fleet.Runner.
func (inProcess) Patch(context.Context, fleet.Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, errChanges
}
