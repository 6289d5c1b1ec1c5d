package tool

import (
	"context"
	"errors"
	"io"

	"github.com/mark3labs/mcp-go/mcp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Stream makes a tool from a method that answers with a stream of messages. The function texts returns the texts of each
// message, which are sent as progress when the message arrives. The result is all messages merged: lists are joined, and other
// fields keep their last value. If the messages become larger than a result may be, the call is cancelled
// and the rest of the stream is not read.
func Stream[Q, R any, PQ message[Q], PR message[R]](
	s Spec, call func(context.Context, PQ, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error), texts func(PR) []string, opts ...Option[PQ],
) Tool {
	o := optionsOf(opts)
	return s.newTool(func(ctx context.Context, r mcp.CallToolRequest) *mcp.CallToolResult {
		q := PQ(new(Q))
		if err := decode(r, q, o); err != nil {
			return Failure(ctx, err)
		}
		p := progressOf(ctx)
		receiveMerged := func(p *progress) (proto.Message, error) {
			all, size := PR(new(R)), 0
			err := receive(ctx, call, q, func(m PR) error {
				if err := p.send(texts(m)); err != nil {
					return err
				}
				proto.Merge(all, m)
				if size += proto.Size(m); size >= maxResult(ctx) {
					return io.EOF // the rest would not fit
				}
				return nil
			})
			return all, err
		}
		all, err := receiveMerged(p)
		if err != nil {
			return Failure(ctx, err)
		}
		return s.resultOf(ctx, q, all, func() (proto.Message, error) { return receiveMerged(nil) })
	})
}

// receive calls a method and passes every message of its stream to the function each, until the stream ends or the function fails. If the
// function returns io.EOF, receive cancels the call and returns nil.
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
