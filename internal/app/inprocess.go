package app

import (
	"context"
	"errors"
	"io"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
)

// inProcess is the connection to the services in this process. It corrects a difference between its channel and gRPC:
// if a server refuses a stream before it has read the request, the channel's SendMsg returns io.EOF. Generated clients
// return that instead of the refusal, so that a refused stream looks like one that has ended.
//
// The values of a call's context do not pass through the channel. The guard takes what it needs from the client's
// context.
type inProcess struct {
	*inprocgrpc.Channel
	own bool // the calls are this process's own, not forwarded for a caller
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

// SendMsg sends the request. If the server refuses it, RecvMsg returns the reason.
func (s oneRequest) SendMsg(m any) error {
	if err := s.ClientStream.SendMsg(m); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
