package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"
)

// ErrShutdown is the cancellation cause of calls that the server ends because it shuts down. Their callers have not
// cancelled them.
var ErrShutdown = errors.New("the server is shutting down")

// Code is the class of an error. It says what a caller can do about the error. Each face has its own code for it.
type Code int

// The classes of errors.
const (
	Internal           Code = iota // a bug, or something unforeseen; the caller gets no details
	InvalidArgument                // the request can never succeed in this form
	NotFound                       // the object of the request does not exist, or the caller may not see it
	AlreadyExists                  // the object to create already exists
	FailedPrecondition             // the state must change before the request can succeed
	Aborted                        // another request came first, or the task that the request waited for has failed
	Unavailable                    // a part that Fleet depends on does not answer; try again
	Unauthenticated                // the caller could not be identified
	PermissionDenied               // the caller is known but may not do this
	ResourceExhausted              // a limit is reached
	Unimplemented                  // the agent's host cannot do this
	DeadlineExceeded               // the request took longer than its time limit
)

// Reason says why a call failed, for programs. The values are those of the proto enum ErrorReason.
type Reason string

// The reasons.
const (
	ReasonAgentNotFound      Reason = "AGENT_NOT_FOUND"
	ReasonTaskNotFound       Reason = "TASK_NOT_FOUND"
	ReasonSessionNotFound    Reason = "SESSION_NOT_FOUND"
	ReasonProjectNotFound    Reason = "PROJECT_NOT_FOUND"
	ReasonRoleNotFound       Reason = "ROLE_NOT_FOUND"
	ReasonTokenNotFound      Reason = "TOKEN_NOT_FOUND"
	ReasonReplicaNotFound    Reason = "REPLICA_NOT_FOUND"
	ReasonReplicaRunning     Reason = "REPLICA_RUNNING"
	ReasonConfigInvalid      Reason = "CONFIG_INVALID"
	ReasonRestartNeeded      Reason = "RESTART_NEEDED"
	ReasonQuestionNotFound   Reason = "QUESTION_NOT_FOUND"
	ReasonQuestionClosed     Reason = "QUESTION_CLOSED"
	ReasonAgentExists        Reason = "AGENT_EXISTS"
	ReasonTokenExists        Reason = "TOKEN_EXISTS"
	ReasonInvalidArgument    Reason = "INVALID_ARGUMENT"
	ReasonInvalidName        Reason = "INVALID_NAME"
	ReasonSpecRequired       Reason = "SPEC_REQUIRED"
	ReasonTaskRequired       Reason = "TASK_REQUIRED"
	ReasonInvalidPage        Reason = "INVALID_PAGE"
	ReasonInvalidPageSize    Reason = "INVALID_PAGE_SIZE"
	ReasonAgentOffline       Reason = "AGENT_OFFLINE"
	ReasonAgentBusy          Reason = "AGENT_BUSY"
	ReasonNoRunningTask      Reason = "NO_RUNNING_TASK"
	ReasonTaskRunning        Reason = "TASK_RUNNING"
	ReasonTaskNotPending     Reason = "TASK_NOT_PENDING"
	ReasonPoolNotFound       Reason = "POOL_NOT_FOUND"
	ReasonPoolExists         Reason = "POOL_EXISTS"
	ReasonFleetPaused        Reason = "FLEET_PAUSED"
	ReasonScheduleNotFound   Reason = "SCHEDULE_NOT_FOUND"
	ReasonScheduleExists     Reason = "SCHEDULE_EXISTS"
	ReasonBackendUnavailable Reason = "BACKEND_UNAVAILABLE"
	ReasonProvisioningFailed Reason = "PROVISIONING_FAILED"
	ReasonUnauthenticated    Reason = "UNAUTHENTICATED"
	ReasonPermissionDenied   Reason = "PERMISSION_DENIED"
	ReasonLimitReached       Reason = "LIMIT_REACHED"
	ReasonBudgetExceeded     Reason = "BUDGET_EXCEEDED"
	ReasonBudgetNotFound     Reason = "BUDGET_NOT_FOUND"
	ReasonCredentialUsedUp   Reason = "CREDENTIAL_USED_UP"
	ReasonCredentialNotFound Reason = "CREDENTIAL_NOT_FOUND"
	ReasonBranchNotFound     Reason = "BRANCH_NOT_FOUND"
	ReasonBranchMoved        Reason = "BRANCH_MOVED"
	ReasonBranchCheckedOut   Reason = "BRANCH_CHECKED_OUT"
	ReasonRemoteNotFound     Reason = "REMOTE_NOT_FOUND"
	ReasonPushRefused        Reason = "PUSH_REFUSED"
	ReasonWorkSettled        Reason = "WORK_SETTLED"
	ReasonWebhookNotFound    Reason = "WEBHOOK_NOT_FOUND"
	ReasonWebhookExists      Reason = "WEBHOOK_EXISTS"
	ReasonWebhookDisabled    Reason = "WEBHOOK_DISABLED"
	ReasonDeliveryNotFound   Reason = "DELIVERY_NOT_FOUND"
	ReasonSessionExists      Reason = "SESSION_EXISTS"
	ReasonPayloadNotFound    Reason = "PAYLOAD_NOT_FOUND"
	ReasonChangesNotFound    Reason = "CHANGES_NOT_FOUND"
	ReasonOutputNotFound     Reason = "OUTPUT_NOT_FOUND"
	ReasonCursorExpired      Reason = "CURSOR_EXPIRED"
	ReasonChecksFailed       Reason = "CHECKS_FAILED"
	ReasonBundleNotFound     Reason = "BUNDLE_NOT_FOUND"
	ReasonKeptWorkNotFound   Reason = "KEPT_WORK_NOT_FOUND"
	ReasonUnsavedWork        Reason = "UNSAVED_WORK"
	ReasonSubagentNotFound   Reason = "SUBAGENT_NOT_FOUND"
	ReasonDefinitionInvalid  Reason = "DEFINITION_INVALID"
	ReasonTaskFailed         Reason = "TASK_FAILED"
	ReasonTaskTimedOut       Reason = "TASK_TIMED_OUT"
	ReasonOutputInvalid      Reason = "OUTPUT_INVALID"
	ReasonUnimplemented      Reason = "UNIMPLEMENTED"
	ReasonPlanNotFound       Reason = "PLAN_NOT_FOUND"
	ReasonPlanOutdated       Reason = "PLAN_OUTDATED"
	ReasonNotReviewed        Reason = "NOT_REVIEWED"
	ReasonNotFannedOut       Reason = "NOT_FANNED_OUT"
	ReasonDelegationRefused  Reason = "DELEGATION_REFUSED"
	ReasonInternal           Reason = "INTERNAL"
)

// code returns the code of the reason; Internal for ReasonInternal and for an unknown reason.
func (r Reason) code() Code {
	switch r {
	case ReasonInvalidArgument, ReasonInvalidName, ReasonSpecRequired, ReasonTaskRequired, ReasonInvalidPage, ReasonInvalidPageSize, ReasonCursorExpired:
		return InvalidArgument
	case ReasonAgentNotFound, ReasonTaskNotFound, ReasonSessionNotFound, ReasonProjectNotFound, ReasonRoleNotFound, ReasonTokenNotFound, ReasonReplicaNotFound,
		ReasonQuestionNotFound, ReasonNoRunningTask, ReasonPoolNotFound, ReasonScheduleNotFound, ReasonBudgetNotFound, ReasonCredentialNotFound, ReasonBranchNotFound,
		ReasonRemoteNotFound, ReasonWebhookNotFound, ReasonDeliveryNotFound, ReasonPayloadNotFound, ReasonChangesNotFound, ReasonOutputNotFound, ReasonKeptWorkNotFound,
		ReasonBundleNotFound, ReasonSubagentNotFound, ReasonPlanNotFound:
		return NotFound
	case ReasonAgentExists, ReasonTokenExists, ReasonPoolExists, ReasonScheduleExists, ReasonWebhookExists, ReasonSessionExists:
		return AlreadyExists
	case ReasonReplicaRunning, ReasonConfigInvalid, ReasonRestartNeeded, ReasonQuestionClosed, ReasonAgentOffline, ReasonTaskRunning, ReasonTaskNotPending,
		ReasonBranchCheckedOut, ReasonPushRefused, ReasonWorkSettled, ReasonWebhookDisabled, ReasonUnsavedWork, ReasonDefinitionInvalid, ReasonPlanOutdated,
		ReasonNotReviewed, ReasonNotFannedOut:
		return FailedPrecondition
	case ReasonAgentBusy, ReasonBranchMoved, ReasonChecksFailed, ReasonTaskFailed, ReasonOutputInvalid:
		return Aborted
	case ReasonFleetPaused, ReasonBackendUnavailable, ReasonProvisioningFailed:
		return Unavailable
	case ReasonUnauthenticated:
		return Unauthenticated
	case ReasonPermissionDenied, ReasonDelegationRefused:
		return PermissionDenied
	case ReasonLimitReached, ReasonBudgetExceeded, ReasonCredentialUsedUp:
		return ResourceExhausted
	case ReasonUnimplemented:
		return Unimplemented
	case ReasonTaskTimedOut:
		return DeadlineExceeded
	}
	return Internal
}

// Error is the error type of the core, of places and of stores. Any other error counts as Internal.
type Error struct {
	Code       Code
	Reason     Reason
	Message    string            // for people: says what failed and what to do
	NextStep   string            // the call that helps, in a sentence; see Next
	Field      string            // the request field at fault; empty if no single field is
	Metadata   map[string]string // for programs
	RetryAfter time.Duration     // how long to wait before another try; 0 if that is not known
	Cause      error             // for the log; never shown to a caller
}

// Errorf returns an error with the reason and with the reason's code.
func Errorf(r Reason, format string, args ...any) *Error {
	return &Error{Code: r.code(), Reason: r, Message: fmt.Sprintf(format, args...)}
}

// InvalidField returns INVALID_ARGUMENT about the value of a request field.
func InvalidField(field, format string, args ...any) *Error {
	return Invalid(ReasonInvalidArgument, field, format, args...)
}

// Invalid returns an InvalidArgument error about the value of a request field.
func Invalid(r Reason, field, format string, args ...any) *Error {
	e := Errorf(r, format, args...)
	e.Code, e.Field = InvalidArgument, field
	return e.With("field", field)
}

// With adds a key to the metadata of e and returns e.
func (e *Error) With(key, value string) *Error {
	m := maps.Clone(e.Metadata)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	e.Metadata = m
	return e
}

// AtLimit adds the details of LIMIT_REACHED to e, and returns e: the name of the limit, how much is used, and how much is
// allowed.
func (e *Error) AtLimit(limit string, used, most int64) *Error {
	return e.With("limit", limit).With("used", strconv.FormatInt(used, 10)).With("max", strconv.FormatInt(most, 10))
}

// After sets RetryAfter and returns e.
func (e *Error) After(wait time.Duration) *Error {
	e.RetryAfter = wait
	return e
}

// Next sets the next step of e, a sentence that names the calls that help, and returns e. Names of tools are in braces,
// because each face writes them in its own way: "{list_agents} shows the existing agents".
func (e *Error) Next(step string) *Error {
	e.NextStep = step
	return e
}

// WithCause sets the cause of e, for the log, and returns e.
func (e *Error) WithCause(cause error) *Error {
	e.Cause = cause
	return e
}

// Error returns the message, with the cause if there is one. Callers of the API see only Message.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Message + ": " + e.Cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ReasonOf returns the reason of err, INTERNAL for an error that is not of the core, and "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ReasonInternal
}

// PublicMessage returns the part of err that a caller may see: the message of an *Error, and a general text for other
// errors.
func PublicMessage(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it took too long"
	}
	return "an internal error occurred; the server's log has the cause"
}
