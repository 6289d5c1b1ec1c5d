package app

import (
	"context"
	"errors"
	"io"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
)

// inProcess is the connection to the services in this process. It mends what its channel does otherwise than gRPC: a
// server that refuses a stream before it has read the request makes the channel's SendMsg return io.EOF, which generated
// clients then return instead of the refusal, so that a stream which was refused looks like one that has ended.
//
// The values of a call's context do not get through the channel. What the guard needs of them it takes from the client's
// context.
type inProcess struct {
	*inprocgrpc.Channel
	own bool // the calls are this process's own, not passed on for a caller
}

type ownKey struct{}

// isOwn reports whether the call is this process's own.
func isOwn(ctx context.Context) bool { return ctx.Value(ownKey{}) != nil }

func (c inProcess) mark(ctx context.Context) context.Context {
	if c.own {
		return context.WithValue(ctx, ownKey{}, true)
	}
	return ctx
}

// Invoke makes a unary call.
func (c inProcess) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	return c.Channel.Invoke(c.mark(ctx), method, req, resp, opts...)
}

// NewStream begins a stream.
func (c inProcess) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.Channel.NewStream(c.mark(ctx), desc, method, opts...)
	if err == nil && !desc.ClientStreams {
		s = oneRequest{s}
	}
	return s, err
}

// oneRequest is a stream of answers to one request.
type oneRequest struct{ grpc.ClientStream }

// SendMsg sends the request. That the server did not want it is for RecvMsg to tell, which knows why.
func (s oneRequest) SendMsg(m any) error {
	if err := s.ClientStream.SendMsg(m); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
