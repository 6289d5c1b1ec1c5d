package runner

import (
	"context"

	"fleet/internal/fleet"
)

// Answer implements fleet.Runner.
func (w Agent) Answer(context.Context, fleet.Run, fleet.Question) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q asks no questions", w.name)
}
