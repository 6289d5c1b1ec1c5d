package wire

import (
	"net/http"
	"strconv"
)

// WriteError answers an HTTP request with the error object of err. If the server suggests a delay, the header Retry-After has it.
func WriteError(w http.ResponseWriter, err error) {
	if seconds, ok := RetryAfter(err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(seconds))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(HTTPStatus(err))
	_, _ = w.Write(append(ErrorBody(err), '\n')) // the client may have disconnected
}
