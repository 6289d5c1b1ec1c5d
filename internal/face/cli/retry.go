package cli

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
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

// firstConnectTime is how long to retry a server that was never reached, because the server may just be starting.
const firstConnectTime = 700 * time.Millisecond

// conn sets a missing request_id of every request with that field. It repeats calls whose connection broke if that is safe: calls that are
// idempotent according to the proto, calls with a request_id, and calls that were never sent. It refuses texts that are not UTF-8.
type conn struct {
	grpc.ClientConnInterface
	reconnectTime time.Duration
	onOutage      func()      // called once per outage of a server that was reached before
	onReconnect   func()      // called when the server answers again
	reached       atomic.Bool // the server has been reached, so a failure is an outage
	// renewsTokens says that a call gets a new token if the last token has expired.
	renewsTokens bool
	// readsWholeLists says that lists are read to their end, unless the request asks for a part of a list.
	readsWholeLists bool
}

// isTokenExpiry reports whether a call probably failed because its token expired during the call. started is the time when
// the call began. A token that was already invalid makes the call fail at once, so isTokenExpiry returns false if the call failed within a
// second.
func isTokenExpiry(err error, started time.Time) bool {
	return status.Code(err) == codes.Unauthenticated && reasonOf(err) != "" && time.Since(started) > time.Second
}

// attempts makes one call, and repeats it when necessary. If the call has a stream of responses, it can be repeated after any of
// them.
type attempts struct {
	*conn
	method         string
	req            any
	canRepeat      bool
	maxOutage      time.Duration // how long the server may be unreachable; negative means forever
	silent         bool          // does not report outages
	isEndless      bool          // the stream has no end of its own, so it is continued even if the server ends it with an error
	started        time.Time     // of the last attempt
	responded      bool          // an attempt has had a response
	outageReported bool          // onOutage was called, and onReconnect was not called after it
	backoff        retryBackoff
}

// newAttempts returns the attempts to make a call with the request. It sets the request_id if the request has the field and no value in it.
func (c *conn) newAttempts(method string, req any) *attempts {
	return &attempts{conn: c, method: method, req: req, canRepeat: c.setRequestID(method, req), maxOutage: c.reconnectTime}
}

// recordResponse records that the server answers. It ends an outage.
func (a *attempts) recordResponse() {
	a.reached.Store(true)
	if a.outageReported {
		a.onReconnect()
	}
	a.responded, a.outageReported, a.backoff = true, false, retryBackoff{}
}

// errStreamEnds means that the server ends a stream that should continue.
var errStreamEnds = status.Error(codes.Unavailable, "the server keeps ending the stream")

// waitForRetry waits before a call that failed with err is made again. It returns nil at once if the call only needs a new token. It returns
// an error if the call must not be repeated, or if the time for retries is over. If ctx is done during an outage, the error is the cause of
// that. sent says that the server may have received the call.
func (a *attempts) waitForRetry(ctx context.Context, sent bool, err error) error {
	if sent {
		a.reached.Store(true)
	}
	switch {
	case ctx.Err() != nil && isBroken(err):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return err
	case a.renewsTokens && a.canRepeat && isTokenExpiry(err, a.started):
		return nil
	case !isBroken(err) && (!a.isEndless || !a.responded || !isTransient(err)):
		return err
	case sent && !a.canRepeat:
		return Fail(ExitUnavailable, "check its effect before you try again", "the connection broke, and the server may have carried out the request")
	}
	limit := a.maxOutage
	if !a.reached.Load() {
		limit = firstConnectTime
	} else if !a.outageReported && !a.silent && !errors.Is(err, errStreamEnds) {
		a.outageReported = true
		a.onOutage()
	}
	switch {
	case a.backoff.wait(ctx, limit):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// isBroken reports whether a call failed in transport, not by a decision of Fleet. A server that shuts down cancels its calls.
func isBroken(err error) bool {
	code := status.Code(err)
	return code == codes.Canceled || code == codes.Unavailable && reasonOf(err) == ""
}

// isTransient reports whether a stream of events may continue after the error: a server ends streams when it shuts down and when the
// reader is too slow, and transport errors such as a reset stream have other codes.
func isTransient(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Aborted, codes.ResourceExhausted:
		return true
	case codes.Internal, codes.Unknown:
		return reasonOf(err) == ""
	}
	return false
}

func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if err := checkTexts(args); err != nil {
		return err
	}
	if c.readsWholeLists {
		if portion := portionToRead(method, args); portion != nil {
			return readWholeList(portion, args, reply, func(part any) error { return c.invoke(ctx, method, part, reply, opts...) })
		}
	}
	return c.invoke(ctx, method, args, reply, opts...)
}

// NewStream does not repeat the call; the function that attempts.receiver returns does.
func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := c.ClientConnInterface.NewStream(ctx, desc, method, opts...)
	if err != nil {
		return nil, err
	}
	return checkedStream{s}, nil
}

func (c *conn) invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	a := c.newAttempts(method, args)
	for {
		var p peer.Peer
		a.started = time.Now()
		err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(opts[:len(opts):len(opts)], grpc.Peer(&p))...)
		if err == nil {
			a.recordResponse()
			return nil
		}
		if err := a.waitForRetry(ctx, p.Addr != nil, err); err != nil {
			return err
		}
	}
}

// receiver returns a function that makes the call and waits for the next response of its stream. After the last response, the function
// returns io.EOF; if it is used again, it makes the call again. If the connection breaks, the function repeats the call if that is safe.
//
// If onResponse is nil, the repeated call must have the same responses: the function skips those that it has already returned. Otherwise
// the function calls onResponse with each response and skips none. onResponse must change the request so that a repeated call continues
// after that response.
func (a *attempts) receiver(ctx context.Context, responseType protoreflect.MessageType, onResponse func(proto.Message)) func() (proto.Message, error) {
	var stream grpc.ClientStream
	received, returned := 0, 0
	next := func() (m proto.Message, err error) {
		if stream == nil {
			received, a.started = 0, time.Now()
			if stream, err = a.open(ctx); err != nil {
				return nil, err
			}
		}
		m = responseType.New().Interface()
		return m, stream.RecvMsg(m)
	}
	return func() (proto.Message, error) {
		for {
			m, err := next()
			switch {
			case err == nil:
				a.recordResponse()
				if onResponse != nil {
					onResponse(m)
					return m, nil
				}
				if received++; received > returned {
					returned = received
					return m, nil
				}
				continue
			case isEnd(err):
				stream = nil
				return nil, err
			}
			sent := stream != nil // an open stream implies a connection
			stream = nil
			if err := a.waitForRetry(ctx, sent, err); err != nil {
				return nil, err
			}
		}
	}
}

// open starts the stream and sends the request.
func (a *attempts) open(ctx context.Context) (grpc.ClientStream, error) {
	s, err := a.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, a.method)
	if err != nil {
		return nil, err
	}
	if err := s.SendMsg(a.req); err != nil && !isEnd(err) { // RecvMsg returns why the stream has ended
		return s, err
	}
	return s, s.CloseSend()
}

// isEnd reports whether a stream has ended normally.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// setRequestID sets the request_id of a request that has the field and no value in it. It reports whether the call can be repeated: the
// request has a request_id, or the method is idempotent according to the proto.
func (c *conn) setRequestID(method string, args any) bool {
	m, ok := args.(proto.Message)
	if !ok {
		return false
	}
	r := m.ProtoReflect()
	if f := fieldWithRole(r.Descriptor(), fleetv1.Shown_request_id); f != nil {
		if r.Get(f).String() == "" {
			r.Set(f, protoreflect.ValueOfString(uuid.NewString()))
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

// retryBackoff waits longer before each retry, up to about 2 seconds. The zero value is ready to use.
type retryBackoff struct {
	tries int
	since time.Time
}

// wait waits before the next retry. It returns false if ctx is done, or if the retries would take longer than the limit in all. A negative
// limit is never reached.
func (r *retryBackoff) wait(ctx context.Context, limit time.Duration) bool {
	if r.tries == 0 {
		r.since = time.Now()
	}
	length := min(50*time.Millisecond<<min(r.tries, 6), 2*time.Second)
	length = length*3/4 + rand.N(length/2)
	r.tries++
	if limit >= 0 && time.Since(r.since)+length > limit {
		return false
	}
	return sleep(ctx, length) == nil
}

// sleep waits for the duration. If ctx is done before, it returns the cause of that.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
