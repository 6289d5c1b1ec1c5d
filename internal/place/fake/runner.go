package fake

import "fleet/internal/fleet"

// runner runs the tasks of one agent.
type runner struct {
	place *Place
	agent fleet.Agent
}

// Connect implements fleet.Place.
func (p *Place) Connect(a fleet.Agent) fleet.Runner { return runner{p, a} }
