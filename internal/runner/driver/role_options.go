package driver

import "fleet/internal/fleet"

// RoleOptions are options of a role that only some drivers have.
type RoleOptions struct {
	Effort   string `yaml:"effort"`    // how much the model thinks; empty: the program's default
	MaxTurns int    `yaml:"max_turns"` // the most requests to the model in one run; 0: the program's default

	// MaxCostUSD is the most that one task may cost; 0: no limit. Fleet adds up the usage that the program reports. Claude Code
	// also checks the limit in each run. Both check after each request to the model, so the last request can exceed the limit.
	MaxCostUSD float64 `yaml:"max_cost_usd"`
}

// TaskOptions returns the role's options as options of a task, so that CheckOptions can check them.
func (r RoleOptions) TaskOptions() fleet.TaskOptions {
	o := fleet.TaskOptions{Effort: r.Effort}
	if r.MaxTurns != 0 {
		o.MaxTurns = &r.MaxTurns
	}
	if r.MaxCostUSD != 0 {
		o.MaxCostUSD = &r.MaxCostUSD
	}
	return o
}
