// Package facetest helps the tests of faces, which call the core over an in-process channel. Only tests import it.
package facetest

import (
	"context"
	"sync"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
)

// KeepStreams returns the channel as one that keeps its streams for ever. The finalizer of a stream that is collected ends the stream's
// context, which only the synctest bubble of its test may do.
func KeepStreams(c *inprocgrpc.Channel) grpc.ClientConnInterface { return keeping{c} }

type keeping struct{ *inprocgrpc.Channel }

var streams sync.Map

// NewStream implements grpc.ClientConnInterface.
func (k keeping) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := k.Channel.NewStream(ctx, desc, method, opts...)
	streams.Store(stream, nil)
	return stream, err
}
