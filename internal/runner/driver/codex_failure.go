package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// codexError is an error that Codex reports over the Agent Client Protocol before it repeats a request to its model.
type codexError struct {
	Message string          `json:"message"` // for example "Reconnecting... 1/5"
	Info    json.RawMessage `json:"codexErrorInfo"`
	Details string          `json:"additionalDetails"`
}

// retryStep returns a step for the repeated request.
func (e *codexError) retryStep() Piece {
	_, status := acp.ParseCodexError(e.Info)
	attempt, limit, why := parseReconnecting(e.Message)
	return codexRetryStep(attempt, limit, status, cmp.Or(codexFailureReason(e.Details), why))
}

// codexRetryStep returns a step for a failed request to the model that Codex repeats.
func codexRetryStep(attempt, limit, status int, why string) Piece {
	r := &fleet.RequestRetry{Attempt: attempt, Limit: limit, Status: cmp.Or(status, codexStatus(why)), Error: oneLine(why)}
	text := "a request to the model failed (" + cmp.Or(r.Error, "unknown error") + ") and is repeated"
	if limit > 0 {
		text += fmt.Sprintf(": attempt %d of %d follows", attempt+1, limit)
	}
	return stepPiece(text, &fleet.Step{Type: fleet.StepRetry, Retry: r})
}

var reconnectingPattern = regexp.MustCompile(`^Reconnecting\.\.\. (\d{1,4})/(\d{1,4})(?: \((.*)\))?$`)

// parseReconnecting parses the message in which Codex says that it repeats a request. It returns the number of the failed
// attempt, the maximum number of attempts, and the reason. For any other message, attempt is 0 and why is the message.
func parseReconnecting(message string) (attempt, limit int, why string) {
	m := reconnectingPattern.FindStringSubmatch(message)
	if m == nil {
		return 0, 0, message
	}
	attempt, _ = strconv.Atoi(m[1])
	limit, _ = strconv.Atoi(m[2])
	return attempt, limit + 1, m[3]
}

// codexFailureReason returns the reason in an error message of Codex. That is the whole message, unless the message is a JSON response
// of the model's API with a message of its own.
func codexFailureReason(message string) string {
	if e := parseAPIError(message); e.Message != "" {
		return e.Message
	}
	return strings.TrimSpace(message)
}

// openAIError is an error of the model's API.
type openAIError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code"`
}

// parseAPIError returns the error in a message that is a JSON response of the model's API. For any other message, the error is empty.
func parseAPIError(message string) openAIError {
	var response struct {
		Error openAIError `json:"error"`
	}
	_ = json.Unmarshal([]byte(message), &response) // the message may be a text
	return response.Error
}

var httpStatusPattern = regexp.MustCompile(`^(?:unexpected status|exceeded retry limit, last status:) (\d{3}) `)

// codexStatus returns the HTTP status in an error message of Codex, or 0 if there is none.
func codexStatus(message string) int {
	m := httpStatusPattern.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// codexMessages are the beginnings of Codex's messages for errors that have no HTTP status.
var codexMessages = []struct {
	start string
	code  fleet.ReasonCode
}{
	{"Codex ran out of room in the model's context window", fleet.CodeContextFull},
	{"You've hit your usage limit", fleet.CodeUsageWindow},
	{"Quota exceeded", fleet.CodeBilling},
	{"We’re currently experiencing high demand", fleet.CodeOverloaded},
	{"stream disconnected before completion", fleet.CodeNetwork},
	{"Connection failed", fleet.CodeNetwork},
	{"error sending request", fleet.CodeNetwork},
}

// apiReasonCodes maps the code or the type of an error of OpenAI's API to a reason code.
var apiReasonCodes = map[string]fleet.ReasonCode{
	"context_length_exceeded": fleet.CodeContextFull, "insufficient_quota": fleet.CodeBilling, "rate_limit_exceeded": fleet.CodeRateLimited,
	"rate_limit_error": fleet.CodeRateLimited, "authentication_error": fleet.CodeAuth, "invalid_api_key": fleet.CodeAuth,
	"permission_error": fleet.CodeAuth, "invalid_request_error": fleet.CodeInvalidRequest, "server_error": fleet.CodeOverloaded,
	"api_error": fleet.CodeOverloaded, "overloaded_error": fleet.CodeOverloaded, "usage_limit_reached": fleet.CodeUsageWindow,
}

// codexReasonCode returns the reason code for an error message of Codex, or an empty code if the message is unknown. It reads the code from
// the text of the message, because the events of `codex exec --json` have no field for a code.
func codexReasonCode(message string) fleet.ReasonCode {
	e := parseAPIError(message)
	if code := cmp.Or(apiReasonCodes[e.Code], apiReasonCodes[e.Type]); code != "" {
		return code
	}
	message = strings.TrimSpace(message)
	if code := fleet.ReasonCodeOfStatus(codexStatus(message)); code != "" {
		return code
	}
	for _, m := range codexMessages {
		if strings.HasPrefix(message, m.start) {
			return m.code
		}
	}
	return ""
}
