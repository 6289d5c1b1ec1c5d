package fleet

import "errors"

// ReasonCode says for programs why a task failed. It is empty if the task did not fail, or if only a text says why. A driver
// derives the code from typed fields of its program's output. If the program has no such field, the driver may derive the code
// from a text, but only from one that the program itself wrote.
type ReasonCode string

// Reason codes.
const (
	CodeChecksFailed   ReasonCode = "CHECKS_FAILED"   // the agent completed the task, and its checks failed
	CodeRateLimited    ReasonCode = "RATE_LIMITED"    // the model's API refused requests because there were too many
	CodeUsageWindow    ReasonCode = "USAGE_WINDOW"    // a usage window of the subscription is used up; Task.RetryAt says until when
	CodeOverloaded     ReasonCode = "OVERLOADED"      // the model's API failed or was overloaded
	CodeAuth           ReasonCode = "AUTH"            // the model's API refused the key or the login
	CodeBilling        ReasonCode = "BILLING"         // the account of the key cannot pay
	CodeNetwork        ReasonCode = "NETWORK"         // the model's API could not be reached
	CodeContextFull    ReasonCode = "CONTEXT_FULL"    // the conversation is too long for the model
	CodeMaxTurns       ReasonCode = "MAX_TURNS"       // the limit of turns was reached
	CodeBudget         ReasonCode = "BUDGET"          // the limit of cost was reached
	CodeRefused        ReasonCode = "REFUSED"         // the model refused the task
	CodeInvalidRequest ReasonCode = "INVALID_REQUEST" // the model's API refused a request as invalid, for example for an unknown model
	CodeOutputInvalid  ReasonCode = "OUTPUT_INVALID"  // the output does not match the task's schema
	CodeProgramChanged ReasonCode = "PROGRAM_CHANGED" // this version of the program writes no output that Fleet understands
	CodeProgramMissing ReasonCode = "PROGRAM_MISSING" // the agent's program is not installed where the agent runs
	CodePlaceLost      ReasonCode = "PLACE_LOST"      // the agent's workspace does not run any more, or is gone
	CodeRunnerLost     ReasonCode = "RUNNER_LOST"     // the process that supervised the run was killed, and so was the run
)

// RetryClass says what happens to a queued task that failed with a code.
type RetryClass int

// The classes of retries.
const (
	RetryNever   RetryClass = iota // another attempt would fail too, or somebody has to decide
	RetryWaits                     // another attempt helps later, and does not count towards QueueEntry.MaxAttempts
	RetryCounts                    // another attempt may help, and counts
	RetryForgets                   // another attempt may help, in a new conversation, and counts
	RetryHeld                      // another attempt helps after somebody has repaired the agent's credential, and does not count
)

// Retry says what happens to a queued task that failed with the code.
func (c ReasonCode) Retry() RetryClass {
	switch c {
	case CodeRateLimited, CodeUsageWindow, CodePlaceLost:
		return RetryWaits
	case CodeOverloaded, CodeNetwork, CodeRunnerLost:
		return RetryCounts
	case CodeContextFull:
		return RetryForgets
	case CodeAuth, CodeBilling:
		return RetryHeld
	}
	return RetryNever
}

// counts reports whether attempts that failed with the code count towards QueueEntry.MaxAttempts.
func (c ReasonCode) counts() bool { return c.Retry() != RetryWaits && c.Retry() != RetryHeld }

// reasonCodeKey is the key of a ReasonCode in the metadata of an error.
const reasonCodeKey = "reason_code"

// WithReasonCode adds the code to the error, for a task that fails because of it.
func (e *Error) WithReasonCode(c ReasonCode) *Error { return e.With(reasonCodeKey, string(c)) }

// ReasonCodeOf returns the code that was added to the error, or an empty code.
func ReasonCodeOf(err error) ReasonCode {
	if e, ok := errors.AsType[*Error](err); ok {
		return ReasonCode(e.Metadata[reasonCodeKey])
	}
	return ""
}

// ReasonCodeOfStatus returns the code for an HTTP status of the model's API, or an empty code.
func ReasonCodeOfStatus(status int) ReasonCode {
	switch {
	case status == 401 || status == 403:
		return CodeAuth
	case status == 402:
		return CodeBilling
	case status == 413: // the request is too large
		return CodeContextFull
	case status == 429:
		return CodeRateLimited
	case status >= 500 && status < 600:
		return CodeOverloaded
	case status >= 400 && status < 500:
		return CodeInvalidRequest
	}
	return ""
}
