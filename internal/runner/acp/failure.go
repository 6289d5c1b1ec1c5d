package acp

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/coder/acp-go-sdk"

	"fleet/internal/fleet"
)

// codedError is an error with a code for programs.
type codedError struct {
	error
	code fleet.ReasonCode
}

// codeOf returns the code of the error, or an empty code.
func codeOf(err error) fleet.ReasonCode {
	f, _ := errors.AsType[codedError](err)
	return f.code
}

// codeOfRequestError returns the code of an error that is the program's answer to a request. Gemini CLI uses the HTTP status of the
// model's API as the code of its error. The other programs describe the error in its data.
func codeOfRequestError(r *acp.RequestError) fleet.ReasonCode {
	if r.Code == authRequired {
		return fleet.CodeAuth
	}
	if code := fleet.ReasonCodeOfStatus(r.Code); code != "" {
		return code
	}
	var data struct {
		Claude   string          `json:"errorKind"`
		OpenCode string          `json:"errorName"`
		Codex    json.RawMessage `json:"codexErrorInfo"`
	}
	raw, err := json.Marshal(r.Data)
	if err != nil || json.Unmarshal(raw, &data) != nil {
		return ""
	}
	if code := cmp.Or(ClaudeErrorCodes[data.Claude], openCodeErrorCodes[data.OpenCode]); code != "" {
		return code
	}
	code, _ := ParseCodexError(data.Codex)
	return code
}

// codeOfTokenLimit returns the code for a turn of the program that ended at a limit of tokens. For Gemini CLI the limit means a
// full context. For other programs it means an answer that is too long, for which there is no code.
func codeOfTokenLimit(program string) fleet.ReasonCode {
	if program == "gemini-cli" {
		return fleet.CodeContextFull
	}
	return ""
}

// ClaudeErrorCodes maps the names of errors that Claude Code has in its messages and in its events about repeated requests.
var ClaudeErrorCodes = map[string]fleet.ReasonCode{
	"authentication_failed": fleet.CodeAuth,
	"oauth_org_not_allowed": fleet.CodeAuth,
	"billing_error":         fleet.CodeBilling,
	"rate_limit":            fleet.CodeRateLimited,
	"overloaded":            fleet.CodeOverloaded,
	"server_error":          fleet.CodeOverloaded,
	"invalid_request":       fleet.CodeInvalidRequest,
	"model_not_found":       fleet.CodeInvalidRequest,
}

// openCodeErrorCodes maps the names of errors of OpenCode. Most errors of the model's API have the name APIError, which says
// nothing about the cause.
var openCodeErrorCodes = map[string]fleet.ReasonCode{"ContextOverflowError": fleet.CodeContextFull}

// codexErrorCodes maps the names of errors of Codex.
var codexErrorCodes = map[string]fleet.ReasonCode{
	"contextWindowExceeded":       fleet.CodeContextFull,
	"sessionBudgetExceeded":       fleet.CodeBudget,
	"usageLimitExceeded":          fleet.CodeUsageWindow,
	"rateLimitExceeded":           fleet.CodeRateLimited,
	"serverOverloaded":            fleet.CodeOverloaded,
	"internalServerError":         fleet.CodeOverloaded,
	"unauthorized":                fleet.CodeAuth,
	"badRequest":                  fleet.CodeInvalidRequest,
	"cyberPolicy":                 fleet.CodeRefused,
	"misalignmentPolicyViolation": fleet.CodeRefused,
}

// ParseCodexError returns the code of an error in the format of Codex, and its HTTP status, which is 0 if there was no response.
// The format is a name, or an object whose only field is named after the error and has the status. The code is empty for an
// unknown name or another format. For an object, the code depends only on the status.
func ParseCodexError(info json.RawMessage) (code fleet.ReasonCode, status int) {
	var name string
	if json.Unmarshal(info, &name) == nil {
		return codexErrorCodes[name], 0
	}
	var object map[string]struct {
		Status int `json:"httpStatusCode"`
	}
	if json.Unmarshal(info, &object) != nil {
		return "", 0
	}
	for _, o := range object {
		return cmp.Or(fleet.ReasonCodeOfStatus(o.Status), fleet.CodeNetwork), o.Status
	}
	return "", 0
}
