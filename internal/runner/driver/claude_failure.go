package driver

import (
	"net/http"
	"time"

	"fleet/internal/fleet"
)

// codesOfErrors are the codes of the errors that Claude Code names in its messages and repeated requests.
var codesOfErrors = map[string]fleet.ReasonCode{
	"authentication_failed": fleet.CodeAuth,
	"oauth_org_not_allowed": fleet.CodeAuth,
	"billing_error":         fleet.CodeBilling,
	"rate_limit":            fleet.CodeRateLimited,
	"overloaded":            fleet.CodeOverloaded,
	"server_error":          fleet.CodeOverloaded,
	"invalid_request":       fleet.CodeInvalidRequest,
	"model_not_found":       fleet.CodeInvalidRequest,
}

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
	code := codeOfStatus(res.APIStatus)
	if code == "" {
		code = codesOfErrors[p.apiError]
	}
	if code == "" && p.unreachable {
		code = fleet.CodeNetwork
	}
	if code == fleet.CodeRateLimited && p.limit != nil && p.limit.Status == "rejected" {
		return fleet.CodeUsageWindow, p.limit.resets()
	}
	return code, time.Time{}
}

// codeOfStatus returns the code for an HTTP status of the model's API, or an empty code.
func codeOfStatus(status int) fleet.ReasonCode {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fleet.CodeAuth
	case status == http.StatusPaymentRequired:
		return fleet.CodeBilling
	case status == http.StatusTooManyRequests:
		return fleet.CodeRateLimited
	case status == http.StatusRequestEntityTooLarge:
		return fleet.CodeContextFull
	case status >= 500:
		return fleet.CodeOverloaded
	case status >= 400:
		return fleet.CodeInvalidRequest
	}
	return ""
}
