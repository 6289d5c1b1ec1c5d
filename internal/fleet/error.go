package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// ErrShutdown is the cause of the cancellation of calls that the server ends because it shuts down. Their callers did not
// give them up.
var ErrShutdown = errors.New("the server is shutting down")

// ShuttingDown reports whether ctx ended because the server shuts down. What the call began then continues: the caller
// has not given it up, and can ask another server for the result.
func ShuttingDown(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrShutdown) }

// Code is the class of an error: what kind of thing a caller can do about it. The faces turn it into their own codes.
type Code int

// The classes of errors.
const (
	Internal           Code = iota // a bug, or something unforeseen; the caller is told nothing of the inside
	InvalidArgument                // the request can never succeed as it is
	NotFound                       // what the request names does not exist, or is not the caller's to see
	AlreadyExists                  // what the request makes exists
	FailedPrecondition             // the state must change before the request can succeed
	Aborted                        // someone else was first
	Unavailable                    // a part that Fleet depends on does not answer; try again
	Unauthenticated                // nobody knows who calls
	PermissionDenied               // the caller is known and may not
	ResourceExhausted              // a limit is reached
	Unimplemented                  // the agent's host cannot do this
	DeadlineExceeded               // what was asked for took longer than it may
)

// Reason says why a call failed, for programs. The values are those of the proto enum ErrorReason.
type Reason string

// The reasons. Each belongs to one Code; see reasonCodes.
const (
	ReasonAgentNotFound      Reason = "AGENT_NOT_FOUND"
	ReasonTaskNotFound       Reason = "TASK_NOT_FOUND"
	ReasonSessionNotFound    Reason = "SESSION_NOT_FOUND"
	ReasonProjectNotFound    Reason = "PROJECT_NOT_FOUND"
	ReasonRoleNotFound       Reason = "ROLE_NOT_FOUND"
	ReasonTokenNotFound      Reason = "TOKEN_NOT_FOUND"
	ReasonReplicaNotFound    Reason = "REPLICA_NOT_FOUND"
	ReasonReplicaRunning     Reason = "REPLICA_RUNNING"
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
	ReasonBackendUnavailable Reason = "BACKEND_UNAVAILABLE"
	ReasonProvisioningFailed Reason = "PROVISIONING_FAILED"
	ReasonUnauthenticated    Reason = "UNAUTHENTICATED"
	ReasonPermissionDenied   Reason = "PERMISSION_DENIED"
	ReasonLimitReached       Reason = "LIMIT_REACHED"
	ReasonSessionExists      Reason = "SESSION_EXISTS"
	ReasonPayloadNotFound    Reason = "PAYLOAD_NOT_FOUND"
	ReasonChangesNotFound    Reason = "CHANGES_NOT_FOUND"
	ReasonOutputNotFound     Reason = "OUTPUT_NOT_FOUND"
	ReasonCursorExpired      Reason = "CURSOR_EXPIRED"
	ReasonChecksFailed       Reason = "CHECKS_FAILED"
	ReasonBundleNotFound     Reason = "BUNDLE_NOT_FOUND"
	ReasonSubagentNotFound   Reason = "SUBAGENT_NOT_FOUND"
	ReasonDefinitionInvalid  Reason = "DEFINITION_INVALID"
	ReasonTaskFailed         Reason = "TASK_FAILED"
	ReasonTaskTimedOut       Reason = "TASK_TIMED_OUT"
	ReasonOutputInvalid      Reason = "OUTPUT_INVALID"
	ReasonUnimplemented      Reason = "UNIMPLEMENTED"
	ReasonInternal           Reason = "INTERNAL"
)

var reasonCodes = map[Reason]Code{
	ReasonAgentNotFound:      NotFound,
	ReasonTaskNotFound:       NotFound,
	ReasonSessionNotFound:    NotFound,
	ReasonProjectNotFound:    NotFound,
	ReasonRoleNotFound:       NotFound,
	ReasonTokenNotFound:      NotFound,
	ReasonReplicaNotFound:    NotFound,
	ReasonReplicaRunning:     FailedPrecondition,
	ReasonQuestionNotFound:   NotFound,
	ReasonQuestionClosed:     FailedPrecondition,
	ReasonAgentExists:        AlreadyExists,
	ReasonTokenExists:        AlreadyExists,
	ReasonInvalidArgument:    InvalidArgument,
	ReasonInvalidName:        InvalidArgument,
	ReasonSpecRequired:       InvalidArgument,
	ReasonTaskRequired:       InvalidArgument,
	ReasonInvalidPage:        InvalidArgument,
	ReasonInvalidPageSize:    InvalidArgument,
	ReasonAgentOffline:       FailedPrecondition,
	ReasonAgentBusy:          Aborted,
	ReasonNoRunningTask:      NotFound,
	ReasonTaskRunning:        FailedPrecondition,
	ReasonBackendUnavailable: Unavailable,
	ReasonProvisioningFailed: Unavailable,
	ReasonUnauthenticated:    Unauthenticated,
	ReasonPermissionDenied:   PermissionDenied,
	ReasonLimitReached:       ResourceExhausted,
	ReasonSessionExists:      AlreadyExists,
	ReasonPayloadNotFound:    NotFound,
	ReasonChangesNotFound:    NotFound,
	ReasonOutputNotFound:     NotFound,
	ReasonCursorExpired:      InvalidArgument,
	ReasonChecksFailed:       Aborted,
	ReasonBundleNotFound:     NotFound,
	ReasonSubagentNotFound:   NotFound,
	ReasonDefinitionInvalid:  FailedPrecondition,
	ReasonTaskFailed:         Aborted,
	ReasonTaskTimedOut:       DeadlineExceeded,
	ReasonOutputInvalid:      Aborted,
	ReasonUnimplemented:      Unimplemented,
	ReasonInternal:           Internal,
}

// Error is the one error type of the core, and of what plugs into it. Any other error counts as Internal.
type Error struct {
	Code       Code
	Reason     Reason
	Message    string            // for people: names the thing, and says what to do
	NextStep   string            // what to do next, where that is a call: {list_agents} stands for the tool of that name
	Field      string            // request field that is to blame, where there is one
	Metadata   map[string]string // for programs
	RetryAfter time.Duration     // when to try again, where it is known
	Cause      error             // for the log; never shown to a caller
}

// Errorf makes an error of the reason, with the reason's own code.
func Errorf(r Reason, format string, args ...any) *Error {
	return &Error{Code: reasonCodes[r], Reason: r, Message: fmt.Sprintf(format, args...)}
}

// Invalid makes an error about the value of a request field.
func Invalid(r Reason, field, format string, args ...any) *Error {
	e := Errorf(r, format, args...)
	e.Code, e.Field = InvalidArgument, field
	return e.With("field", field)
}

// With adds a key for programs, and returns e.
func (e *Error) With(key, value string) *Error {
	m := maps.Clone(e.Metadata)
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	e.Metadata = m
	return e
}

// Next sets the calls that help, and returns e. The names of tools stand in braces, since the faces call them otherwise:
// "{list_agents} shows the agents there are".
func (e *Error) Next(step string) *Error {
	e.NextStep = step
	return e
}

// WithCause sets the cause of e, for the log, and returns e.
func (e *Error) WithCause(cause error) *Error {
	e.Cause = cause
	return e
}

// Error is the message, with the cause where there is one. Callers of the API see Message only.
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

// PublicMessage returns what a caller may be told about err: the message of a core error, and nothing of any other.
func PublicMessage(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it took too long"
	}
	return "something went wrong inside; the server's log has the cause"
}
