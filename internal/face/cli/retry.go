package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "fleet/gen/fleet/v1"
)

// firstContact is how long to retry a server that was never reached, because the server may just be starting.
const firstContact = 700 * time.Millisecond

// conn gives every mutation a request_id, and repeats calls whose connection broke if that is safe: calls without side
// effects, calls with a request_id, and calls that were never sent.
type conn struct {
	grpc.ClientConnInterface
	newID    func() string
	patience time.Duration
	lost     func() // called once per outage of a server that was reached before
	reached  atomic.Bool
	// renews says that the next call gets a new token if the last token has expired.
	renews bool
	// whole says that lists are read to their end if the request asks for no part of them.
	whole bool
}

// hasExpired reports whether a call failed because its token probably expired during the call. begun is the time when
// the call began. A token that was already invalid makes the call fail at once, so hasExpired returns false for a call
// that failed within a second.
func hasExpired(err error, begun time.Time) bool {
	return status.Code(err) == codes.Unauthenticated && reasonOf(err) != "" && time.Since(begun) > time.Second
}

// Invoke makes a unary call.
func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := checkTexts(args); err != nil {
		return err
	}
	if c.whole {
		if l := listOf(method, args); l != nil {
			return readWhole(l, args, reply, func() error { return c.invoke(ctx, method, args, reply, opts...) })
		}
	}
	return c.invoke(ctx, method, args, reply, opts...)
}

// NewStream begins a call with a stream of answers.
func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return checkedStream{s}, nil
}

func (c *conn) invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	repeatable := c.prepare(method, args)
	var wait pause
	for {
		var p peer.Peer
		begun := time.Now()
		err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(opts[:len(opts):len(opts)], grpc.Peer(&p))...)
		sent := p.Addr != nil
		if sent {
			c.reached.Store(true)
		}
		if c.renews && repeatable && hasExpired(err, begun) {
			continue
		}
		if err == nil || !broken(ctx, err) {
			return err
		}
		if err := c.again(ctx, &wait, sent, repeatable, err); err != nil {
			return err
		}
	}
}

// receive makes a call with a stream of answers. It returns a function that waits for the next answer and fails with
// io.EOF after the last answer. If the connection breaks, this function repeats the call if that is safe. The same
// request has the same answers, so it skips the answers that it has returned already. If taken is not nil, it is called
// with each answer and changes the request so that a repeated call continues after that answer; then no answers are
// skipped.
func (c *conn) receive(ctx context.Context, method string, req proto.Message, answer protoreflect.MessageType, taken func(proto.Message)) func() (proto.Message, error) {
	repeatable := c.prepare(method, req)
	var stream grpc.ClientStream
	var wait pause
	came, given, begun := 0, 0, time.Time{}
	next := func() (m proto.Message, err error) {
		if stream == nil {
			came, begun = 0, time.Now()
			if stream, err = c.open(ctx, method, req); err != nil {
				return nil, err
			}
		}
		m = answer.New().Interface()
		return m, stream.RecvMsg(m)
	}
	return func() (proto.Message, error) {
		for {
			m, err := next()
			if err == nil {
				c.reached.Store(true)
				wait = pause{}
				if taken != nil {
					taken(m)
					return m, nil
				}
				if came++; came > given {
					given = came
					return m, nil
				}
				continue
			}
			sent := stream != nil // an open stream implies a connection
			stream = nil
			if sent {
				c.reached.Store(true)
			}
			if c.renews && repeatable && hasExpired(err, begun) {
				continue
			}
			if isEnd(err) || !broken(ctx, err) {
				return nil, err
			}
			if err := c.again(ctx, &wait, sent, repeatable, err); err != nil {
				return nil, err
			}
		}
	}
}

// open makes a call with a stream of answers.
func (c *conn) open(ctx context.Context, method string, req proto.Message) (grpc.ClientStream, error) {
	s, err := c.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(req); err != nil && !isEnd(err) { // RecvMsg returns why the stream has ended
		return s, err
	}
	return s, s.CloseSend()
}

// isEnd reports whether a stream has ended normally.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// again waits before a broken call is repeated. If the call must not be repeated, it returns an error that says so. If
// the time for retries is over or ctx is done, it returns the call's error.
func (c *conn) again(ctx context.Context, wait *pause, sent, repeatable bool, err error) error {
	if sent && !repeatable {
		return Fail(ExitUnavailable, "check its effect before you try again", "the connection broke, and the server may have carried out the request")
	}
	patience := firstContact
	if c.reached.Load() {
		patience = c.patience
	}
	if wait.tries == 0 && c.reached.Load() {
		c.lost()
	}
	if !wait.next(ctx, patience) {
		return err
	}
	return nil
}

// prepare sets a missing request_id of a mutation, and reports whether the call can be repeated.
func (c *conn) prepare(method string, args any) bool {
	m, ok := args.(proto.Message)
	if !ok {
		return false
	}
	r := m.ProtoReflect()
	if f := withRole(r.Descriptor(), fleetv1.Shown_request_id); f != nil {
		if r.Get(f).String() == "" {
			r.Set(f, protoreflect.ValueOfString(c.newID()))
		}
		return true
	}
	d := descriptorOf(method)
	if d == nil {
		return false
	}
	o, ok := d.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() != descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN
}

// descriptorOf returns the descriptor of the method "/package.Service/Method", or nil if there is none.
func descriptorOf(method string) protoreflect.MethodDescriptor {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil
	}
	m, _ := d.(protoreflect.MethodDescriptor)
	return m
}

// broken reports whether a call failed in transport, not by a decision of Fleet. A server that shuts down cancels its
// calls.
func broken(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return reasonOf(err) == ""
	case codes.Canceled:
		return true
	}
	return false
}
