package tool

import (
	"context"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
)

// errUnfinished means that the server ended a stream without sending the result.
var errUnfinished = errors.New("the stream ended without a result")

// StreamWithResult makes a tool from a method whose stream ends with the result. The function last reports whether a message is
// the result. The function texts returns the texts of each earlier message, which are sent as progress when the message arrives.
func StreamWithResult[Q, R any, PQ message[Q], PR message[R]](
	s Spec, call func(context.Context, PQ, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error), texts func(PR) []string,
	last func(PR) bool, opts ...Option[PQ],
) Tool {
	o := optionsOf(opts)
	return s.newTool(func(ctx context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		q := PQ(new(Q))
		if err := decode(r, q, o); err != nil {
			return Failure(ctx, err)
		}
		var result PR
		p := progressOf(ctx)
		err := receive(ctx, call, q, func(m PR) error {
			if last(m) {
				s.recordTasks(ctx, q, m)
				result = m
				return nil
			}
			return p.send(texts(m))
		})
		if err == nil && result == nil {
			err = errUnfinished
		}
		if err != nil {
			return Failure(ctx, err)
		}
		return s.resultOf(ctx, q, result, nil)
	})
}
