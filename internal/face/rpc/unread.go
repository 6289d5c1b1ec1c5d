package rpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"fleet/internal/fleet"
)

const (
	// maxUnread is how many bytes of answers a server keeps for a principal that does not read them.
	maxUnread = 512 << 20
	// minUnread is the size of the smallest answer that is counted.
	minUnread = 64 << 10
	// downloadSize is counted for each download: the size of the largest one, which is in memory as a whole.
	downloadSize = 64 << 20
	// retryUnread is how long a principal with too many unread bytes should wait before it repeats a call.
	retryUnread = 2 * time.Second
)

// unread counts the bytes of answers in memory of each principal.
type unread struct {
	mu    sync.Mutex
	bytes map[string]int64
}

func newUnread() *unread { return &unread{bytes: map[string]int64{}} }

// check returns LIMIT_REACHED if the principal may not have n more bytes.
func (u *unread) check(principal string, n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if used := u.bytes[principal]; used+n > maxUnread {
		return fleet.Errorf(fleet.ReasonLimitReached, "the server has %d bytes of answers that you have not read, and the limit is %d: read them, or end their calls", used, maxUnread).
			AtLimit("unread bytes", used, maxUnread).After(retryUnread)
	}
	return nil
}

// hold counts n bytes of the principal until release is called, once or more.
func (u *unread) hold(principal string, n int64) (release func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes[principal] += n
	return sync.OnceFunc(func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.bytes[principal] -= n; u.bytes[principal] == 0 {
			delete(u.bytes, principal)
		}
	})
}

// download counts a download of the principal until the returned function is called, which also calls leave. If the principal has
// too many bytes, download calls leave and returns LIMIT_REACHED.
func (u *unread) download(principal string, leave func()) (func(), error) {
	if err := u.check(principal, downloadSize); err != nil {
		leave()
		return nil, err
	}
	release := u.hold(principal, downloadSize)
	return func() { leave(); release() }, nil
}

// total returns the number of bytes of all principals.
func (u *unread) total() (n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, b := range u.bytes {
		n += b
	}
	return n
}

// Unread returns how many bytes of answers the clients have not read.
func (i *Interceptor) Unread() int64 { return i.unread.total() }

// answer is an answer to a call over gRPC, for Codec.
type answer struct {
	message any
	hold    func(n int64) (release func()) // counts n bytes
}

// count counts the answer to a call until the client has read it. It returns what the face must send.
func (i *Interceptor) count(ctx context.Context, resp any) any {
	id := identityOf(ctx)
	if id == nil || id.call == nil {
		return resp
	}
	hold := func(n int64) func() { return i.unread.hold(id.principal.Name, n) }
	if id.work != nil {
		return &answer{resp, func(n int64) func() {
			release := hold(n)
			stop := i.afterClose(ctx, release)
			return func() { stop(); release() }
		}}
	}
	if m, ok := resp.(proto.Message); ok {
		if n := proto.Size(m); n >= minUnread {
			i.open.afterwards(id.call, hold(int64(n)))
		}
	}
	return resp
}

// Codec is the codec of a gRPC server with an Interceptor. gRPC takes the answer to a unary call as a whole, and ends the call's
// context before the client has read it. Only the buffer of the answer tells when gRPC has sent or dropped it.
type Codec struct{ encoding.CodecV2 }

// Marshal returns the message in the wire format.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*answer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	m, ok := a.message.(proto.Message)
	if !ok {
		return c.CodecV2.Marshal(a.message)
	}
	n := proto.Size(m)
	if n < minUnread {
		return c.CodecV2.Marshal(m)
	}
	pool := counted{mem.DefaultBufferPool(), a.hold(int64(n))}
	data := pool.Get(n)
	if _, err := (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*data)[:0], m); err != nil {
		pool.Put(data)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(data, pool)}, nil
}

// counted is the pool of the buffer of an answer. gRPC calls Put when it has sent or dropped the answer.
type counted struct {
	mem.BufferPool
	release func()
}

// Put implements mem.BufferPool.
func (c counted) Put(data *[]byte) {
	c.BufferPool.Put(data)
	c.release()
}
