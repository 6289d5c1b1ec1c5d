package local

import (
	"time"

	"fleet/internal/fleet"
)

// Checks configures how the work of tasks is checked.
type Checks struct {
	Commands []string      `yaml:"checks"`        // shell commands that run in the agent's tree; a task completes only if all of them succeed
	Timeout  time.Duration `yaml:"check_timeout"` // time limit for each command; 0: 10 min
	Retries  *int          `yaml:"retries"`       // how often the agent may try again after a failed check; nil: once
}

func (c Checks) fleetChecks() fleet.Checks {
	return fleet.Checks{Commands: c.Commands, Timeout: c.Timeout, Retries: c.Retries}
}
