package local

import (
	"time"

	"fleet/internal/fleet"
)

// Checks configures how the work of tasks is checked.
type Checks struct {
	Commands []string      `yaml:"checks"`        // shell commands, run in the agent's tree; a task completes only if all pass
	Timeout  time.Duration `yaml:"check_timeout"` // per command; 0: 10 min
	Retries  *int          `yaml:"retries"`       // further attempts after a failed check; nil: 1
}

func (c Checks) plan() fleet.Checks {
	return fleet.Checks{Commands: c.Commands, Timeout: c.Timeout, Retries: c.Retries}
}
