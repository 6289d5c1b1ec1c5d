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
type inProcess struct{ *inprocgrpc.Channel }

// NewStream begins a stream.
func (c inProcess) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.Channel.NewStream(ctx, desc, method, opts...)
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
