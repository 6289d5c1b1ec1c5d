package tool

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"fleet/internal/face/encoded"
)

// Unary makes a tool from a method that answers with one message.
func Unary[Q, R any, PQ message[Q], PR message[R]](
	s Spec, call func(context.Context, PQ, ...grpc.CallOption) (PR, error), opts ...Option[PQ],
) Tool {
	o := optionsOf(opts)
	return s.newTool(func(ctx context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		q := PQ(new(Q))
		if err := decode(r, q, o); err != nil {
			return Failure(ctx, err)
		}
		s.capLimit(ctx, q.ProtoReflect(), PR(new(R)).ProtoReflect())
		stop := func() {}
		if p := progressOf(ctx); p != nil && o.watch != nil {
			stop = follow(ctx, p, o.watch, o.agent(q))
		}
		receiverCtx, receiver := encoded.NewReceiver(ctx)
		m, err := call(receiverCtx, q)
		stop()
		if err != nil {
			return Failure(ctx, err)
		}
		s.recordTasks(ctx, q, m)
		again := func() (proto.Message, error) { return call(ctx, q) }
		if a := receiver.Response(); a != nil {
			return s.resultOfEncoded(ctx, q, a, again)
		}
		return s.resultOf(ctx, q, m, again)
	})
}
