package remote

import (
	"context"

	"fleet/internal/fleet"
)

var errChanges = fleet.Errorf(fleet.ReasonUnimplemented, "the agent's runner does not tell what tasks changed: look at the agent's files yourself")

// Changes implements fleet.Runner.
func (runner) Changes(context.Context, fleet.Run) (*fleet.Changes, error) { return nil, errChanges }

// Patch implements fleet.Runner.
func (runner) Patch(context.Context, fleet.Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, errChanges
}
