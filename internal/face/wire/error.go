package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// internalMessage is the only text that a caller gets about an internal error.
const internalMessage = "an internal error occurred in Fleet; the server's log has the cause: try again, or ask the operator of the server"

// Error is the JSON error object returned by REST and MCP, and by the CLI with -o json.
type Error struct {
	// Reason is a name of the proto enum ErrorReason.
	Reason string `json:"error"`
	// Message is for people. It names what failed and says what to do next.
	Message string `json:"message"`
	// Details is for programs: the metadata of the error, and retry_after_seconds if the server suggests a delay. It is
	// null if there are no details.
	Details map[string]any `json:"details"`
}

// codeReasons has the reasons of errors without an ErrorInfo, for example those of gRPC itself, by their code.
var codeReasons = map[codes.Code]string{
	codes.InvalidArgument:   ReasonInvalidArgument,
	codes.OutOfRange:        ReasonInvalidArgument,
	codes.Unavailable:       "BACKEND_UNAVAILABLE",
	codes.Canceled:          "CANCELLED",
	codes.DeadlineExceeded:  "DEADLINE_EXCEEDED",
	codes.Unauthenticated:   "UNAUTHENTICATED",
	codes.PermissionDenied:  "PERMISSION_DENIED",
	codes.ResourceExhausted: "LIMIT_REACHED",
	codes.Unimplemented:     "UNIMPLEMENTED",
}

// codeStatus has the HTTP statuses of gRPC codes. A code that is not in it gets 500.
var codeStatus = map[codes.Code]int{
	codes.OK:                 http.StatusOK,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.Aborted:            http.StatusConflict,
	codes.Unauthenticated:    http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.Canceled:           499, // nginx's "client closed request"; HTTP has no such status
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.Unimplemented:      http.StatusNotImplemented,
}

// reasonStatus has the reasons that do not get the HTTP status of their gRPC code, because the API promises 400 for them.
var reasonStatus = map[string]int{"AGENT_EXISTS": http.StatusBadRequest}

// ErrorOf returns the error object of a gRPC status. The cancellation or the deadline of a context counts as the status of
// that name. Any other error is internal.
func ErrorOf(err error) Error {
	s, reason := statusAndReason(err)
	e := Error{Reason: reason, Message: s.Message()}
	if reason == "INTERNAL" {
		e.Message = internalMessage
	}
	details := map[string]any{}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			for k, v := range info.GetMetadata() {
				details[k] = v
			}
		}
	}
	if seconds, ok := retryAfter(err); ok {
		details["retry_after_seconds"] = seconds
	}
	if len(details) > 0 {
		e.Details = details
	}
	return e
}

// ErrorBody returns the error object of err as JSON.
func ErrorBody(err error) []byte { return ErrorOf(err).JSON() }

// JSON returns the error object as compact JSON.
func (e Error) JSON() []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil { // a detail cannot be written as JSON
		return Error{Reason: "INTERNAL", Message: internalMessage}.JSON()
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// HTTPStatus returns the HTTP status of the error object that ErrorOf returns. It returns 200 for nil.
func HTTPStatus(err error) int {
	if err == nil {
		return http.StatusOK
	}
	s, reason := statusAndReason(err)
	if code, ok := reasonStatus[reason]; ok {
		return code
	}
	if code, ok := codeStatus[s.Code()]; ok && reason != "INTERNAL" {
		return code
	}
	return http.StatusInternalServerError
}

// statusAndReason returns err as a status, and its reason: that of its ErrorInfo, else that of its code.
func statusAndReason(err error) (*status.Status, string) {
	s, ok := status.FromError(err)
	switch {
	case ok:
	case errors.Is(err, context.Canceled):
		s = status.New(codes.Canceled, "the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		s = status.New(codes.DeadlineExceeded, "the call took longer than its caller allows")
	default:
		s = status.New(codes.Internal, internalMessage)
	}
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetReason() != "" {
			return s, info.GetReason()
		}
	}
	if reason, ok := codeReasons[s.Code()]; ok {
		return s, reason
	}
	return s, "INTERNAL"
}
