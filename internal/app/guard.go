package app

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"fleet/internal/admission"
	"fleet/internal/fleet"
)

// guard runs before the interceptors, for the calls of every face. When the app closes, it ends open calls, because a
// stream that follows the fleet would never end by itself.
type guard struct {
	nextUnary  grpc.UnaryServerInterceptor  // called by Unary
	nextStream grpc.StreamServerInterceptor // called by Stream
	closed     context.Context              //nolint:containedctx // ends when the app closes
	end        context.CancelFunc           // cancels open calls and refuses later calls, without waiting
	mu         sync.RWMutex                 // held for reading by each open call
	openCalls  atomic.Int64                 // number of open calls, for metrics
}

func newGuard() *guard {
	ctx, cancel := context.WithCancel(context.Background())
	return &guard{closed: ctx, end: cancel}
}

// wait waits until all open calls have ended. It is called after end, which cancels them and refuses later calls.
func (g *guard) wait() {
	g.mu.Lock()
	defer g.mu.Unlock()
}

var errClosing = admission.Error(&fleet.Error{
	Code: fleet.Unavailable, Reason: fleet.ReasonBackendUnavailable, RetryAfter: time.Second,
	Message: "the server is shutting down: try again in a moment",
})

// enter begins a call, or returns an error if the app closes. The returned context also ends when the app closes. The caller
// must call the returned function when the call has ended.
func (g *guard) enter(ctx context.Context) (context.Context, func(), error) {
	if !g.mu.TryRLock() {
		return nil, nil, errClosing
	}
	if g.closed.Err() != nil {
		g.mu.RUnlock()
		return nil, nil, errClosing
	}
	if client := inprocgrpc.ClientContext(ctx); client != nil {
		ctx = metadata.NewOutgoingContext(streamContext{ctx, client}, nil)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(g.closed, func() { cancel(fleet.ErrShutdown) })
	g.openCalls.Add(1)
	return ctx, func() { g.openCalls.Add(-1); stop(); cancel(nil); g.mu.RUnlock() }, nil
}

// streamContext is the context of a stream of the in-process channel, with the values of its client's context. The channel
// itself passes on only the end of that context.
type streamContext struct {
	context.Context                 //nolint:containedctx // it is one
	client          context.Context //nolint:containedctx // only for its values
}

// Value returns the value in the stream's context, or else the value in the client's context.
func (s streamContext) Value(key any) any {
	if v := s.Context.Value(key); v != nil {
		return v
	}
	return s.client.Value(key)
}

// Unary is the interceptor of unary calls. It calls nextUnary.
func (g *guard) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	ctx, leave, err := g.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	resp, err := g.nextUnary(ctx, req, info, next)
	return resp, g.reword(err)
}

// Stream is the interceptor of streams. It calls nextStream.
func (g *guard) Stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	ctx, leave, err := g.enter(ss.Context())
	if err != nil {
		return err
	}
	defer leave()
	return g.reword(g.nextStream(srv, serverStream{ss, ctx}, info, next))
}

// reword replaces the error of a call that was cancelled because the app closes, so that its caller tries again.
func (g *guard) reword(err error) error {
	if g.closed.Err() != nil && status.Code(err) == codes.Canceled {
		return errClosing
	}
	return err
}

// serverStream is a stream with the context that enter returned.
type serverStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // a grpc.ServerStream carries its context
}

func (s serverStream) Context() context.Context { return s.ctx }
