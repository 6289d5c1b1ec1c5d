package wire

import (
	"math"
	"net/http"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

// WriteError answers an HTTP request with the status and the error object of err. If err suggests a delay, the header
// Retry-After has it.
func WriteError(w http.ResponseWriter, err error) {
	SetRetryAfter(w.Header(), err)
	WriteErrorObject(w, HTTPStatus(err), ErrorOf(err))
}

// WriteErrorObject answers an HTTP request with the HTTP status and the error object.
func WriteErrorObject(w http.ResponseWriter, status int, e Error) {
	data := append(e.JSON(), '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the client may have disconnected
}

// SetRetryAfter sets the header Retry-After if err says when the call may be retried.
func SetRetryAfter(h http.Header, err error) {
	if seconds, ok := retryAfter(err); ok {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
}

// retryAfter returns the seconds, rounded up, after which the failed call may be retried. It returns false if err does not say
// when.
func retryAfter(err error) (int, bool) {
	s, _ := statusAndReason(err)
	for _, d := range s.Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok && r.GetRetryDelay() != nil {
			return int(math.Ceil(r.GetRetryDelay().AsDuration().Seconds())), true
		}
	}
	return 0, false
}
