package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"fleet/internal/face/wire"
)

// refusal is the JSON-RPC error of one message. mcp-go reports every error of a prompt or a resource as an internal error, so the transport
// sends the refusal in place of what mcp-go writes.
type refusal struct{ err *rpcError }

type refusalKey struct{}

// withRefusal returns a context for one message, and the refusal that refuseCall sets in it.
func withRefusal(ctx context.Context) (context.Context, *refusal) {
	r := &refusal{}
	return context.WithValue(ctx, refusalKey{}, r), r
}

// replace returns the refusal as the response to the message with the id. If there is none, it returns written.
func (r *refusal) replace(written []byte, id json.RawMessage) []byte {
	if r == nil || r.err == nil {
		return written
	}
	return append(r.err.response(id), '\n')
}

// refuseCall sets the refusal of the context's message, and returns an error with the same text for mcp-go.
func refuseCall(ctx context.Context, err *rpcError) error {
	if r, ok := ctx.Value(refusalKey{}).(*refusal); ok {
		r.err = err
	}
	return errors.New(err.Message)
}

// callError returns the JSON-RPC error for a call of the API that has failed. Its data is Fleet's error object.
func callError(err error) *rpcError {
	object, code := wire.ErrorOf(err), mcp.INTERNAL_ERROR
	switch status := wire.HTTPStatus(err); {
	case object.Reason == "LIMIT_REACHED":
		code = codeLimitReached
	case status >= 400 && status < 500:
		code = mcp.INVALID_PARAMS
	}
	return &rpcError{code, object.Message, object}
}

// resourceError returns the JSON-RPC error for a resource that cannot be read. Callers cannot tell resources that do not exist from
// those that they may not see.
func resourceError(ctx context.Context, uri string, err error) *rpcError {
	refused := callError(err)
	if object := wire.ErrorOf(err); slices.Contains([]string{"AGENT_NOT_FOUND", "TASK_NOT_FOUND", "PERMISSION_DENIED"}, object.Reason) {
		refused = &rpcError{mcp.RESOURCE_NOT_FOUND, "there is no resource " + uri + " that you may read", map[string]any{"uri": uri}}
		if mcp.IsModernProtocol(server.RequestProtocolVersion(ctx)) {
			refused.Code = mcp.INVALID_PARAMS
		}
	}
	return refused
}
