package driver

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// failureCode returns the code of a result that reports a failure, or an empty code if the cause is unknown.
func (p *claudeParser) failureCode(res *claudeEvent) fleet.ReasonCode {
	switch res.Subtype {
	case "error_max_turns":
		return fleet.CodeMaxTurns
	case "error_max_budget_usd":
		return fleet.CodeBudget
	case "error_max_structured_output_retries":
		return fleet.CodeOutputInvalid
	}
	switch res.StopReason {
	case "refusal":
		return fleet.CodeRefused
	case "model_context_window_exceeded":
		return fleet.CodeContextFull
	}
	if res.TerminalReason == "prompt_too_long" {
		return fleet.CodeContextFull
	}
	code := cmp.Or(fleet.ReasonCodeOfStatus(res.APIStatus), acp.ClaudeErrorCodes[p.apiError])
	if code == "" && p.unreachable {
		code = fleet.CodeNetwork
	}
	return code
}

// claudeFailureReason returns why the run failed, from a result that reports a failure. It uses the text in the result if there is one.
// The number of turns and the cost in the returned text may exceed the limits, because Claude Code checks its limits after a turn.
func claudeFailureReason(e *claudeEvent) string {
	text := cmp.Or(strings.Join(e.Errors, "; "), e.Result)
	switch {
	case text != "":
	case e.Subtype == "error_max_turns":
		text = fmt.Sprintf("it reached its limit of turns, after %d turns", e.Turns)
	case e.Subtype == "error_max_budget_usd":
		text = fmt.Sprintf("it reached its limit of cost; it had spent $%.2f", e.Cost)
	default:
		text = "claude reported a failure without a reason (" + e.Subtype + ")"
	}
	return reasonText(text)
}

// addLimitReason changes the reason of a failed run if a window of the subscription was used up. In this case Fleet's client ends the
// run, so the program itself may not report why.
func (p *claudeParser) addLimitReason(o *fleet.Outcome) {
	if o.Status != fleet.TaskFailed || !p.limit.reached() || o.ReasonCode != "" && o.ReasonCode != fleet.CodeRateLimited {
		return
	}
	if p.result == nil || p.result.APIStatus != http.StatusTooManyRequests {
		o.Reason = limitText(p.limit.usage())
	}
	o.ReasonCode, o.RetryAt = fleet.CodeUsageWindow, unixTime(p.limit.ResetsAt)
}
