package driver

import (
	"math"
	"slices"
	"strings"

	"fleet/internal/fleet"
)

// Limits are options of a role that only some drivers have.
type Limits struct {
	Effort   string `yaml:"effort"`    // how much the model thinks, a value that Claude Code has; empty: the program's default
	MaxTurns int    `yaml:"max_turns"` // the most requests to the model in one run; 0: the program's default

	// MaxCostUSD is what one run may cost, by the program's own account; 0: no limit. The program checks it after each
	// request to the model, so the last request can exceed it.
	MaxCostUSD float64 `yaml:"max_cost_usd"`
}

// Check returns an error that names the option if an option is invalid, or if a driver of the kind does not have it.
// A driver would ignore such an option, so nobody would notice that the limit does not hold.
func (l Limits) Check(kind string) error {
	refuse := func(option, format string, args ...any) error {
		return fleet.Invalid(fleet.ReasonInvalidArgument, option, format, args...)
	}
	if efforts := effortsOf["claude"]; l.Effort != "" && !slices.Contains(efforts, l.Effort) {
		return refuse("effort", "effort must be one of %s, not %q", strings.Join(efforts, ", "), l.Effort)
	}
	if l.MaxTurns < 0 {
		return refuse("max_turns", "max_turns must not be negative, got %d", l.MaxTurns)
	}
	if !(l.MaxCostUSD >= 0) || math.IsInf(l.MaxCostUSD, 1) { // also if it is not a number
		return refuse("max_cost_usd", "max_cost_usd must be an amount in US dollars, or 0 for no limit, got %v", l.MaxCostUSD)
	}
	if kind == "claude" {
		return nil
	}
	option := ""
	switch {
	case l.Effort != "":
		option = "effort"
	case l.MaxTurns != 0:
		option = "max_turns"
	case l.MaxCostUSD != 0:
		option = "max_cost_usd"
	default:
		return nil
	}
	return refuse(option, "the driver %q does not support %s: leave it out, or use the driver \"claude\"", kind, option)
}
