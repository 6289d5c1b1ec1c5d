package app

import (
	"context"
	"errors"
	"io"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// channel is inprocgrpc's channel with faster unary calls: they run in the goroutine of the caller. The library starts
// two goroutines for each call, and their stacks have to grow first.
type channel struct {
	*inprocgrpc.Channel
	guard   *guard
	methods map[string]method // unary methods, by full name
}

// method is a unary method with the service that implements it.
type method struct {
	grpc.MethodDesc
	service any
}

func newChannel(g *guard) *channel {
	c := (&inprocgrpc.Channel{}).WithCloner(sharingCloner{}).WithServerUnaryInterceptor(g.Unary).WithServerStreamInterceptor(g.Stream)
	return &channel{Channel: c, guard: g, methods: map[string]method{}}
}

// RegisterService registers a service, and its unary methods for Invoke.
func (c *channel) RegisterService(d *grpc.ServiceDesc, service any) {
	c.Channel.RegisterService(d, service)
	for _, m := range d.Methods {
		c.methods["/"+d.ServiceName+"/"+m.MethodName] = method{m, service}
	}
}

// Invoke makes a unary call. The service receives the values of the context and the outgoing metadata as incoming
// metadata. The service's own context has no outgoing metadata. No service sends headers, so options that receive
// headers do nothing. The service gets the request itself, so no service may change a request.
func (c *channel) Invoke(ctx context.Context, name string, req, resp any, opts ...grpc.CallOption) error {
	m, ok := c.methods[name]
	if !ok {
		return c.Channel.Invoke(ctx, name, req, resp, opts...) // returns the error for an unknown method
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx = metadata.NewOutgoingContext(metadata.NewIncomingContext(ctx, md), nil)
	answer, err := m.Handler(m.service, ctx, func(any) error { return nil }, func(ctx context.Context, _ any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return c.guard.Unary(ctx, req, info, next)
	})
	if err != nil {
		return err
	}
	return sharingCloner{}.Copy(resp, answer)
}

// inProcess is the connection to the services in this process. It corrects a difference between its channel and gRPC:
// if a server refuses a stream before it has read the request, the channel's SendMsg returns io.EOF. Generated clients
// would return this io.EOF instead of the refusal, so a refused stream would look like a stream that has ended.
//
// The values of a stream's context do not pass through the channel. The guard takes them from the client's context.
type inProcess struct {
	*channel
	own bool // the calls are this process's own, not forwarded for a caller
}

// ownCallKey is the context key that marks this process's own calls.
type ownCallKey struct{}

// isOwnCall reports whether the call is this process's own.
func isOwnCall(ctx context.Context) bool { return ctx.Value(ownCallKey{}) != nil }

// markOwnCalls returns the context for a call, marked if i.own is set.
func (i inProcess) markOwnCalls(ctx context.Context) context.Context {
	if i.own {
		return context.WithValue(ctx, ownCallKey{}, true)
	}
	return ctx
}

// Invoke makes a unary call.
func (i inProcess) Invoke(ctx context.Context, method string, req, resp any, opts ...grpc.CallOption) error {
	return i.channel.Invoke(i.markOwnCalls(ctx), method, req, resp, opts...)
}

// NewStream begins a stream.
func (i inProcess) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := i.Channel.NewStream(i.markOwnCalls(ctx), desc, method, opts...)
	if err == nil && !desc.ClientStreams {
		s = singleRequestStream{s}
	}
	return s, err
}

// singleRequestStream is a stream on which the client sends only one request.
type singleRequestStream struct{ grpc.ClientStream }

// SendMsg sends the request. If the server has refused the stream, it returns nil, and RecvMsg returns the reason.
func (s singleRequestStream) SendMsg(m any) error {
	if err := s.ClientStream.SendMsg(m); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}
