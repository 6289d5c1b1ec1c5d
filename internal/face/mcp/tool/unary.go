package tool

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Unary makes a tool from a method that answers with one message.
func Unary[Q, R any, PQ message[Q], PR message[R]](
	s Spec, call func(context.Context, PQ, ...grpc.CallOption) (PR, error), opts ...Option[PQ],
) Tool {
	o := optionsOf(opts)
	return s.with(func(ctx context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		q := PQ(new(Q))
		if err := decode(r, q, o); err != nil {
			return failure(ctx, err)
		}
		s.prepare(ctx, q.ProtoReflect(), PR(new(R)).ProtoReflect())
		stop := func() {}
		if p := progressOf(ctx); p != nil && o.watch != nil {
			stop = follow(ctx, p, o.watch, o.agent(q))
		}
		m, err := call(ctx, q)
		stop()
		if err != nil {
			return failure(ctx, err)
		}
		return s.answer(ctx, q, m, func() (proto.Message, error) { return call(ctx, q) })
	})
}
