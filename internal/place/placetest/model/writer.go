package model

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
)

// writer writes one answer in the format of an API. The server calls begin first and end last. Between them, it calls writeThought at
// most once, and then writeText and writeCall any number of times. If the connection breaks, it does not call end. To answer with an
// error, it calls only fail.
type writer interface {
	fail(status int, message string)
	begin()
	writeThought(s string)
	writeText(s string)
	writeCall(c Call)
	end(hasCalls bool)
}

func newID() string { return "call_" + rand.Text()[:16] }

// eventStream writes server-sent events.
type eventStream struct{ w http.ResponseWriter }

func (e eventStream) open() {
	e.w.Header().Set("Content-Type", "text/event-stream")
	e.w.WriteHeader(http.StatusOK)
}

func (e eventStream) send(name string, v any) {
	b, _ := json.Marshal(v) // fails only if a script has a tool call whose input is not JSON
	if name != "" {
		_, _ = fmt.Fprintf(e.w, "event: %s\n", name)
	}
	_, _ = fmt.Fprintf(e.w, "data: %s\n\n", b)
	e.w.(http.Flusher).Flush()
}

// errorKinds are the types of Anthropic's errors, by status. The other APIs use them too.
var errorKinds = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error",
}

// dontRetry tells the client not to repeat the request, so that the test sees this error. A caller of fail that wants a retry sets
// X-Should-Retry first.
func dontRetry(w http.ResponseWriter) {
	if w.Header().Get("X-Should-Retry") == "" {
		w.Header().Set("X-Should-Retry", "false")
	}
}

func errorKind(status int) string {
	if k := errorKinds[status]; k != "" {
		return k
	}
	return "api_error"
}
