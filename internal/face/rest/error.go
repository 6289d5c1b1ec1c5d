package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"fleet/internal/face/wire"
)

// unimplemented is the reason of errors about routes that do not exist.
const unimplemented = "UNIMPLEMENTED"

// statusError is an error with an HTTP status of its own.
type statusError struct {
	status int
	error
}

// writeError writes err as the JSON error object.
func writeError(w http.ResponseWriter, err error) {
	status := wire.HTTPStatus(err)
	if own, ok := errors.AsType[*statusError](err); ok {
		status, err = own.status, own.error
	}
	wire.SetRetryAfter(w.Header(), err)
	if status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="fleet"`)
	}
	wire.WriteObject(w, status, wire.ErrorOf(err))
}

// writeNotFound answers a request whose path no route has.
func (f *face) writeNotFound(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	given := wire.Shorten(r.Method + " " + path)
	routes := make([]string, len(f.routes))
	for i, rt := range f.routes {
		routes[i] = rt.String()
	}
	message := fmt.Sprintf("there is no %s; /docs describes the API", given)
	if near := f.nearest(r.Method, path); near != "" {
		message = fmt.Sprintf("there is no %s: did you mean %s? /docs describes the API", given, near)
	}
	wire.WriteObject(w, http.StatusNotFound, wire.Error{
		Reason: unimplemented, Message: message, Details: map[string]any{"method": given, "routes": routes},
	})
}

// writeNotAllowed answers a request whose path exists with other HTTP methods.
func (f *face) writeNotAllowed(w http.ResponseWriter, r *http.Request, verbs []string) {
	path := r.URL.EscapedPath()
	given := wire.Shorten(r.Method + " " + path)
	message := fmt.Sprintf("there is no %s: this path takes %s", given, strings.Join(verbs, " and "))
	if near := f.nearest(r.Method, path); near != "" && strings.HasPrefix(near, r.Method+" ") {
		message = fmt.Sprintf("there is no %s: this path takes %s; did you mean %s?", given, strings.Join(verbs, " and "), near)
	}
	w.Header().Set("Allow", strings.Join(verbs, ", "))
	wire.WriteObject(w, http.StatusMethodNotAllowed, wire.Error{
		Reason: unimplemented, Message: message, Details: map[string]any{"method": given, "allowed": verbs},
	})
}
