package coder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/coder/v2/codersdk"

	"fleet/internal/fleet"
)

// translate converts an error of Coder, or of the connection to Coder, to an error of Fleet. The text what names the operation
// that failed.
func translate(what string, err error) error {
	var fleetErr *fleet.Error
	var throttled *throttledError
	var token tokenError
	var proxy *proxyError
	var response *codersdk.Error
	switch {
	case errors.As(err, &fleetErr):
		return fleetErr
	case errors.As(err, &throttled):
		e := fleet.Errorf(fleet.ReasonBackendUnavailable, "%s failed: %s", what, throttled.Error())
		e.RetryAfter = throttled.after
		return e.WithCause(throttled)
	case errors.As(err, &token):
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s failed: %s", what, token.Error()).WithCause(ErrToken)
	case errors.As(err, &proxy):
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s failed: %s", what, proxy.Error()).WithCause(noResponseError{proxy})
	case errors.As(err, &response):
		return translateResponse(what, response)
	case errors.Is(err, context.DeadlineExceeded):
		return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s failed: Coder did not answer in time", what).WithCause(noResponseError{err})
	}
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s failed: Coder cannot be reached", what).WithCause(noResponseError{connectionError(err)})
}

func translateResponse(what string, e *codersdk.Error) error {
	suffix, cause := messageSuffix(e), logCause(e)
	switch code := e.StatusCode(); {
	case code == http.StatusForbidden:
		return fleet.Errorf(fleet.ReasonPermissionDenied, "%s failed: the Coder token does not permit it%s", what, suffix).WithCause(cause)
	case code == http.StatusBadRequest && len(e.Validations) > 0:
		v := e.Validations[0]
		details := make([]string, 0, len(e.Validations))
		for _, v := range e.Validations {
			details = append(details, v.Field+": "+shortLine(v.Detail))
		}
		return fleet.InvalidField(v.Field, "%s failed: Coder does not accept %s", what, strings.Join(details, "; ")).WithCause(cause)
	case code == http.StatusBadRequest:
		return fleet.Errorf(fleet.ReasonInvalidArgument, "%s failed: Coder refused the request%s", what, suffix).WithCause(cause)
	case code == http.StatusConflict:
		return unavailable("%s failed: Coder reports a conflict, for example with a build in progress%s", what, suffix).WithCause(errors.Join(errConflict, cause))
	case isNotFound(e):
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "%s failed: Coder did not find it, or the user of Fleet's token may not see it%s", what, suffix).WithCause(cause)
	}
	return fleet.Errorf(fleet.ReasonBackendUnavailable, "%s failed: Coder answers with status %d%s", what, e.StatusCode(), suffix).WithCause(cause)
}

// noResponseError means that Coder did not respond. A proxy may have responded in its place.
type noResponseError struct{ error }

func (e noResponseError) Unwrap() error { return e.error }

// isResponse reports whether Coder responded with err. It returns false if Coder did not respond at all.
func isResponse(err error) bool {
	_, none := errors.AsType[noResponseError](err)
	return !none
}

// isThrottled reports whether err means that Coder's rate limit is reached. The limit applies to all requests together.
func isThrottled(err error) bool {
	e, ok := errors.AsType[*fleet.Error](err)
	_, throttled := errors.AsType[*throttledError](err)
	return ok && throttled && e.Reason == fleet.ReasonBackendUnavailable
}

// statusOf returns the HTTP status of Coder's response, or 0 if err is not a response of Coder.
func statusOf(err error) int {
	var response *codersdk.Error
	if errors.As(err, &response) {
		return response.StatusCode()
	}
	return 0
}

// isNotFound reports whether err means that something does not exist. Coder returns the same error for things that the user
// may not see.
func isNotFound(err error) bool {
	code := statusOf(err)
	return code == http.StatusNotFound || code == http.StatusGone
}

// errConflict is the cause of errors about something that already exists or is in progress.
var errConflict = errors.New(http.StatusText(http.StatusConflict))

// isConflict reports whether Coder refused a request because something already exists or is in progress.
func isConflict(err error) bool {
	var e *fleet.Error
	return errors.As(err, &e) && errors.Is(e.Cause, errConflict)
}

// messageSuffix returns ": " and Coder's message, for appending to another message. It returns "" if there is no message or
// the response is a web page.
func messageSuffix(e *codersdk.Error) string {
	m := strings.TrimRight(shortLine(e.Message), ". ")
	if m == "" || strings.Contains(m, "non-JSON") || strings.Contains(m, "<") {
		return ""
	}
	return ": " + m
}

// logCause returns an error for the log. It has the request, and the status and the message of the response.
func logCause(e *codersdk.Error) error {
	path := e.URL()
	if u, err := url.Parse(path); err == nil {
		path = u.Path
	}
	detail := shortLine(e.Detail)
	if strings.Contains(detail, "<") || strings.Contains(e.Message, "non-JSON") {
		detail = ""
	}
	return fmt.Errorf("%s %s: status %d%s %s", e.Method(), path, e.StatusCode(), messageSuffix(e), detail)
}

// connectionError returns err without the URL of the request, because the URL's query may have secrets.
func connectionError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// maxMessage is the maximum size of a text of Coder in a message, in bytes.
const maxMessage = 500

// shortLine returns the text in one line, shortened to maxMessage.
func shortLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}

// unavailable returns BACKEND_UNAVAILABLE for an operation that the caller should retry after 2 seconds.
func unavailable(format string, args ...any) *fleet.Error {
	e := fleet.Errorf(fleet.ReasonBackendUnavailable, format, args...)
	e.RetryAfter = 2 * time.Second
	return e
}
