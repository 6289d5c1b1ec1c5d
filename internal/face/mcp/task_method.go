package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// These are the methods of the extension. Revision 2025-11-25 has other methods named tasks/get and tasks/cancel, which Fleet does not
// offer.
const (
	methodGetTask    = "tasks/get"
	methodUpdateTask = "tasks/update"
	methodCancelTask = "tasks/cancel"
)

// isTaskMethod reports whether the message is a request of the extension.
func (e envelope) isTaskMethod() bool {
	switch e.Method {
	case methodGetTask, methodUpdateTask, methodCancelTask:
		return len(e.ID) > 0 && e.isModern()
	}
	return false
}

// methodResult is the result of a method of the extension. It has the members of the task, if the method returns one.
type methodResult struct {
	ResultType mcp.ResultType `json:"resultType"`
	*task
}

// callMethod calls the method of the extension that the message names, and returns its result.
func (t tasks) callMethod(ctx context.Context, e envelope) (any, error) {
	if e.Params.TaskID == "" {
		return nil, wire.Invalid(wire.ReasonInvalidArgument, "taskId", "the parameters need taskId, the id of a task")
	}
	r, valid := readRef(e.Params.TaskID)
	if !valid {
		return nil, status.Error(codes.NotFound, "there is no such task")
	}
	result := methodResult{ResultType: mcp.ResultTypeComplete}
	var err error
	switch e.Method {
	case methodGetTask:
		result.task, err = t.show(ctx, r)
	case methodUpdateTask:
		var responses map[string]json.RawMessage
		if raw := e.Params.InputResponses; raw != nil && json.Unmarshal(raw, &responses) != nil {
			return nil, wire.Invalid(wire.ReasonInvalidArgument, "inputResponses", "inputResponses must be an object with the answers by the ids of their questions")
		}
		err = t.update(ctx, r, responses)
	case methodCancelTask:
		err = t.cancel(ctx, r)
	}
	return result, err
}

// cancel stops the tasks. A task that has already ended stays as it is. Work that is landing continues, and the client only
// stops waiting for it. The tasks are stopped in parallel, so that no pending task starts in the place of a stopped one. If some cannot be
// stopped, the others are stopped nevertheless.
func (t tasks) cancel(ctx context.Context, r taskRef) error {
	if r.waitsForLanding {
		_, err := t.details(ctx, r) // fails if the caller may not see the tasks
		return err
	}
	errs := make([]error, len(r.ids))
	var stopping sync.WaitGroup
	for i, id := range r.ids {
		stopping.Go(func() { _, errs[i] = t.api.StopTask(ctx, &fleetv1.StopTaskRequest{TaskId: id}) })
	}
	stopping.Wait()
	return cmp.Or(errs...)
}

// respond answers a request of the extension with a JSON-RPC response. The HTTP status is for a transport that has one.
func (t tasks) respond(ctx context.Context, e envelope) (response []byte, httpStatus int) {
	if !mcp.IsValidProtocolVersion(e.Params.Meta.ProtocolVersion()) {
		unsupported := mcp.UnsupportedProtocolVersionError{Version: e.Params.Meta.ProtocolVersion(), Supported: mcp.ValidProtocolVersions}.JSONRPCError()
		return (&rpcError{unsupported.Error.Code, unsupported.Error.Message, unsupported.Error.Data}).response(e.ID), http.StatusBadRequest
	}
	result, err := t.callMethod(ctx, e)
	if err != nil {
		return taskError(e, err)
	}
	return resultResponse(e.ID, result)
}

// taskError returns the response for an error of the API. A task that does not exist and a task that the caller may not see
// have the same response. The client does not repeat a request after INVALID_PARAMS, which is the code of errors about the request.
// It repeats the request after all other errors.
func taskError(e envelope, err error) (response []byte, httpStatus int) {
	object := wire.ErrorOf(err)
	switch status.Code(err) {
	case codes.NotFound, codes.PermissionDenied:
		return (&rpcError{Code: mcp.INVALID_PARAMS, Message: "there is no such task"}).response(e.ID), http.StatusBadRequest
	case codes.InvalidArgument, codes.FailedPrecondition:
		return (&rpcError{mcp.INVALID_PARAMS, object.Message, object}).response(e.ID), http.StatusBadRequest
	case codes.ResourceExhausted:
		return (&rpcError{codeLimitReached, object.Message, object}).response(e.ID), wire.HTTPStatus(err)
	}
	return (&rpcError{mcp.INTERNAL_ERROR, object.Message, object}).response(e.ID), wire.HTTPStatus(err)
}

// checkHeaders returns an error if the headers of an HTTP request do not match its message.
func checkHeaders(h http.Header, e envelope) *rpcError {
	mismatch := func(format string, args ...any) *rpcError {
		return &rpcError{Code: mcp.HEADER_MISMATCH, Message: fmt.Sprintf(format, args...)}
	}
	if got, want := h.Get(mcp.HeaderProtocolVersion), e.Params.Meta.ProtocolVersion(); got != want {
		return mismatch("the header %s is %q, but the message has %q", mcp.HeaderProtocolVersion, got, want)
	}
	if got := h.Get(mcp.HeaderMethod); got != e.Method {
		return mismatch("the header %s is %q, but the message has %q", mcp.HeaderMethod, got, e.Method)
	}
	if got, ok := mcp.DecodeHeaderValue(h.Get(mcp.HeaderName)); !ok || got != e.Params.TaskID { // empty if the method is not about a task
		return mismatch("the header %s is %q, but the message has the task %q", mcp.HeaderName, got, e.Params.TaskID)
	}
	return nil
}
