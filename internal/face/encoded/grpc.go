package encoded

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// UnaryInterceptor lets the services of a gRPC server call Respond. The server must use Codec, which encodes a Response.
func UnaryInterceptor(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, receiver := NewReceiver(ctx)
	resp, err := next(ctx, req)
	if r := receiver.Response(); r != nil && err == nil {
		return r, nil
	}
	return resp, err
}

// Codec is a codec for gRPC servers that can also encode a Response.
type Codec struct{ encoding.CodecV2 }

// Marshal returns the message in the wire format. In this format, the encodings of two messages in a row are the
// encoding of the merged message. So a Response becomes the encoded part, which is not copied, followed by the encoded
// live fields.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*Response)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	part, err := r.Part.protobuf()
	if err != nil {
		return nil, err
	}
	live, err := proto.Marshal(r.Live)
	return mem.BufferSlice{mem.SliceBuffer(part), mem.SliceBuffer(live)}, err
}
