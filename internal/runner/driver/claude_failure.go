package driver

import (
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// failureCode returns the code of a result that reports a failure, and when its cause ends.
func (p *claudeParser) failureCode(res *claudeEvent) (fleet.ReasonCode, time.Time) {
	switch res.Subtype {
	case "error_max_turns":
		return fleet.CodeMaxTurns, time.Time{}
	case "error_max_budget_usd":
		return fleet.CodeBudget, time.Time{}
	case "error_max_structured_output_retries":
		return fleet.CodeOutputInvalid, time.Time{}
	}
	switch res.StopReason {
	case "refusal":
		return fleet.CodeRefused, time.Time{}
	case "model_context_window_exceeded":
		return fleet.CodeContextFull, time.Time{}
	}
	if res.TerminalReason == "prompt_too_long" {
		return fleet.CodeContextFull, time.Time{}
	}
	code := fleet.CodeOfStatus(res.APIStatus)
	if code == "" {
		code = acp.ErrorsOfClaude[p.apiError]
	}
	if code == "" && p.unreachable {
		code = fleet.CodeNetwork
	}
	if code == fleet.CodeRateLimited && p.limit != nil && p.limit.Status == "rejected" {
		return fleet.CodeUsageWindow, p.limit.resets()
	}
	return code, time.Time{}
}
