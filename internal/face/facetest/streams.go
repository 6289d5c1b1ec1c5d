// Package facetest helps the tests of faces, which call the core over an in-process channel. Only tests import it.
package facetest

import (
	"context"
	"sync"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
)

// KeepStreams returns a channel that keeps its streams from the garbage collector. The finalizer of a freed stream
// would end the stream's context outside the synctest bubble of the test, which is an error.
func KeepStreams(c *inprocgrpc.Channel) grpc.ClientConnInterface { return streamKeeper{c} }

type streamKeeper struct{ *inprocgrpc.Channel }

var keptStreams sync.Map

// NewStream implements grpc.ClientConnInterface.
func (k streamKeeper) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := k.Channel.NewStream(ctx, desc, method, opts...)
	keptStreams.Store(stream, nil)
	return stream, err
}
