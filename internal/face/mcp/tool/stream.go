package tool

import (
	"context"
	"errors"
	"io"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// maxResult is how many bytes of messages the result of a stream holds at most. A stream that has more ends there, as
// if its server had ended it, and says in its own fields where to go on.
const maxResult = 8 << 20

// Stream makes a tool of a method that answers with a stream of messages. Each message is progress as soon as it
// comes, in the words that texts finds in it; the result is all of them merged: lists are joined, and of other fields
// the last value counts.
func Stream[Q, R any, PQ message[Q], PR message[R]](
	s Spec, call func(context.Context, PQ, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error), texts func(PR) []string, opts ...Option[PQ],
) Tool {
	o := collect(opts)
	return s.with(func(ctx context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		q := PQ(new(Q))
		if err := decode(r, q, o); err != nil {
			return failure(err)
		}
		p, all, size := progressOf(ctx), PR(new(R)), 0
		err := receive(ctx, call, q, func(m PR) error {
			if err := p.say(texts(m)); err != nil {
				return err
			}
			proto.Merge(all, m)
			if size += proto.Size(m); size >= maxResult {
				return io.EOF
			}
			return nil
		})
		if err != nil {
			return failure(err)
		}
		return success(all)
	})
}

// receive calls a method and gives each message of its stream to each, until the stream ends or each fails. An io.EOF
// of each ends it early and well.
func receive[R any, PQ any, PR message[R]](
	ctx context.Context, call func(context.Context, PQ, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error), q PQ, each func(PR) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := call(ctx, q)
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if err == nil {
			err = each(PR(m))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
