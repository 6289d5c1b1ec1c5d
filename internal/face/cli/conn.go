package cli

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "fleet/gen/fleet/v1"
)

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

// setRequestID sets the request_id of a request that has the field and no value in it. It reports whether the call can be repeated: the
// request has a request_id, or the method is idempotent according to the proto.
func setRequestID(method string, args any) (canRepeat bool) {
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
