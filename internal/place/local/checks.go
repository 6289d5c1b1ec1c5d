package local

import (
	"time"

	"fleet/internal/fleet"
)

// Checks say how the work of tasks is checked.
type Checks struct {
	Commands []string      `yaml:"checks"`        // for a shell, in the agent's tree; a task completes only when all pass
	Timeout  time.Duration `yaml:"check_timeout"` // of each command; 0: 10 min
	Retries  *int          `yaml:"retries"`       // how often the agent may try again when they fail; nil: once
}

func (c Checks) plan() fleet.Checks {
	return fleet.Checks{Commands: c.Commands, Timeout: c.Timeout, Retries: c.Retries}
}
