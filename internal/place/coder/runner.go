package coder

import (
	"context"

	"fleet/internal/fleet"
)

// runner runs the tasks of one agent.
type runner struct {
	place *Place
	agent fleet.Agent
}

// Connect implements fleet.Place.
func (b *Place) Connect(a fleet.Agent) fleet.Runner { return runner{b, a} }

// Answer implements fleet.Runner. The terminal of an agent does not tell what it asks.
func (w runner) Answer(context.Context, fleet.Run, fleet.Question) error {
	return fleet.Errorf(fleet.ReasonUnimplemented, "the agent %q cannot be given answers", w.agent.Name)
}
