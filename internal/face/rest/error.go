package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	"fleet/internal/face/wire"
)

// reasonUnimplemented is the reason of errors about a path, or an HTTP method of a path, that does not exist.
const reasonUnimplemented = "UNIMPLEMENTED"

// writeError writes err as the JSON error object, with the HTTP status of a runtime.HTTPStatusError, or else the status that belongs to
// err.
func writeError(w http.ResponseWriter, err error) {
	status := 0
	if statusErr, ok := errors.AsType[*runtime.HTTPStatusError](err); ok {
		status, err = statusErr.HTTPStatus, statusErr.Err
	}
	if status == 0 {
		status = wire.HTTPStatus(err)
	}
	wire.SetRetryAfter(w.Header(), err)
	if status == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		w.Header().Set("WWW-Authenticate", `Bearer realm="fleet"`)
	}
	wire.WriteErrorObject(w, status, wire.ErrorOf(err))
}

// handleCallError is the gateway's error handler for requests that match a route.
func handleCallError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if b, ok := r.Body.(*body); ok && b.err != nil {
		err = b.err
	}
	if sequenceErr, ok := errors.AsType[runtime.MalformedSequenceError](err); ok {
		err = wire.Invalid(wire.ReasonInvalidArgument, "", "the path has %q, which is not a valid escape: write %%25 for a percent sign", wire.Shorten(string(sequenceErr)))
	}
	writeError(w, err)
}

// handleRoutingError is the gateway's error handler for requests that match no route.
func (f *face) handleRoutingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, status int) {
	path := r.URL.EscapedPath()
	if verbs := f.verbsOf(path); status == http.StatusMethodNotAllowed && len(verbs) > 0 {
		f.writeNotAllowed(w, r, verbs)
		return
	}
	request := wire.Shorten(r.Method + " " + path)
	routes := make([]string, len(f.routes))
	for i, rt := range f.routes {
		routes[i] = rt.String()
	}
	message := fmt.Sprintf("there is no %s; /docs describes the API", request)
	if near := f.nearestRoute(r.Method, path); near != "" {
		message = fmt.Sprintf("there is no %s: did you mean %s? /docs describes the API", request, near)
	}
	wire.WriteErrorObject(w, http.StatusNotFound, wire.Error{
		Reason: reasonUnimplemented, Message: message, Details: map[string]any{"method": request, "routes": routes},
	})
}

// writeNotAllowed answers a request whose path exists, but only with the HTTP methods in verbs.
func (f *face) writeNotAllowed(w http.ResponseWriter, r *http.Request, verbs []string) {
	path := r.URL.EscapedPath()
	request := wire.Shorten(r.Method + " " + path)
	message := fmt.Sprintf("there is no %s: this path takes %s", request, strings.Join(verbs, " and "))
	if near := f.nearestRoute(r.Method, path); near != "" && strings.HasPrefix(near, r.Method+" ") {
		message = fmt.Sprintf("there is no %s: this path takes %s; did you mean %s?", request, strings.Join(verbs, " and "), near)
	}
	w.Header().Set("Allow", strings.Join(verbs, ", "))
	wire.WriteErrorObject(w, http.StatusMethodNotAllowed, wire.Error{
		Reason: reasonUnimplemented, Message: message, Details: map[string]any{"method": request, "allowed": verbs},
	})
}
