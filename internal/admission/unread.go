package admission

import (
	"context"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"fleet/internal/fleet"
)

const (
	// maxUnread is how many bytes of responses a server keeps for a principal that does not read them, before it refuses calls.
	maxUnread = 512 << 20
	// minUnread is the size of the smallest response that is counted.
	minUnread = 4 << 10
	// downloadSize is how many bytes count for a download whose size is not known yet. It is the size of the largest download.
	// A download counts because the server keeps all of it in memory.
	downloadSize = 64 << 20
	// unreadRetryAfter is how long a principal with too many unread bytes should wait before it repeats a call.
	unreadRetryAfter = 2 * time.Second
)

// unreadCounter counts the bytes of responses in memory of each principal.
type unreadCounter struct {
	mu    sync.Mutex
	bytes map[string]int64
}

func newUnreadCounter() *unreadCounter { return &unreadCounter{bytes: map[string]int64{}} }

// unreadBytes are bytes of a principal that count until they are released.
type unreadBytes struct {
	counter   *unreadCounter
	principal string
	bytes     int64
	released  bool
}

// add counts n bytes of the principal, until the result is released.
func (u *unreadCounter) add(principal string, n int64) *unreadBytes {
	b := &unreadBytes{counter: u, principal: principal}
	b.resize(n)
	return b
}

// resize changes how many bytes count, unless they have been released.
func (b *unreadBytes) resize(n int64) { b.change(n, false) }

// release stops counting the bytes. It may be called more than once.
func (b *unreadBytes) release() { b.change(0, true) }

func (b *unreadBytes) change(n int64, release bool) {
	b.counter.mu.Lock()
	defer b.counter.mu.Unlock()
	if b.released {
		return
	}
	b.counter.bytes[b.principal] += n - b.bytes
	if b.bytes, b.released = n, release; b.counter.bytes[b.principal] == 0 {
		delete(b.counter.bytes, b.principal)
	}
}

// bytesOf returns how many bytes of the principal count.
func (u *unreadCounter) bytesOf(principal string) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes[principal]
}

// check returns LIMIT_REACHED if the principal has too many bytes.
func (u *unreadCounter) check(principal string) error {
	if used := u.bytesOf(principal); used > maxUnread {
		return fleet.Errorf(fleet.ReasonLimitReached, "the server has %d bytes of answers that you have not read, and the limit is %d: read them, or end their calls", used, maxUnread).
			AtLimit("unread bytes", used, maxUnread).After(unreadRetryAfter)
	}
	return nil
}

type unreadBytesKey struct{}

// countDownload counts a download of the principal until the returned function is called, which also calls leave. If the principal has
// too many bytes, countDownload calls leave and returns LIMIT_REACHED.
func (u *unreadCounter) countDownload(ctx context.Context, principal string, leave func()) (context.Context, func(), error) {
	b := u.add(principal, downloadSize) // before the check, so that two calls cannot both pass it
	if err := u.check(principal); err != nil {
		b.release()
		leave()
		return ctx, nil, err
	}
	return context.WithValue(ctx, unreadBytesKey{}, b), func() { leave(); b.release() }, nil
}

// SetDownloadSize sets how many bytes the context's download has in memory.
func SetDownloadSize(ctx context.Context, bytes int) {
	if b, ok := ctx.Value(unreadBytesKey{}).(*unreadBytes); ok {
		b.resize(int64(bytes))
	}
}

// Unread returns how many bytes of responses the server keeps for all clients that have not read them.
func (i *Interceptor) Unread() (n int64) {
	i.unread.mu.Lock()
	defer i.unread.mu.Unlock()
	for _, b := range i.unread.bytes {
		n += b
	}
	return n
}

// checkUnread returns LIMIT_REACHED if the caller does not read its responses.
func (i *Interceptor) checkUnread(ctx context.Context) error {
	if id := identityOf(ctx); id != nil && id.call != nil {
		return i.unread.check(id.principal.Name)
	}
	return nil
}

// countUnread counts a response to a call until the client has read it, unless the response is small. It returns what the face must
// send.
func (i *Interceptor) countUnread(ctx context.Context, resp any) any {
	id := identityOf(ctx)
	m, ok := resp.(proto.Message)
	if id == nil || id.call == nil || !ok {
		return resp
	}
	n := proto.Size(m)
	if n < minUnread {
		return resp
	}
	b := i.unread.add(id.principal.Name, int64(n))
	if id.grpcPart == nil { // the response counts until the HTTP request has ended
		context.AfterFunc(id.call.ctx, b.release)
		return resp
	}
	r := &countedResponse{message: m, size: n, release: b.release}
	runtime.AddCleanup(r, func(release func()) { release() }, r.release)
	return r
}

// countedResponse is a message over gRPC that counts until its buffer is released.
type countedResponse struct {
	message proto.Message
	size    int
	release func()
}

// CountingCodec is the codec of a gRPC server with an Interceptor. gRPC takes messages before the client reads them, and ends
// the context of a call when it has taken the last one. So the codec watches the buffer of a message: gRPC returns it to its
// pool after it has sent or dropped the message. If gRPC drops a buffer without returning it to the pool, a cleanup releases
// its bytes when the garbage collector frees it.
type CountingCodec struct{ encoding.CodecV2 }

// Marshal returns the message in the wire format.
func (c CountingCodec) Marshal(v any) (mem.BufferSlice, error) {
	r, ok := v.(*countedResponse)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	data, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, r.size), r.message)
	if err != nil {
		r.release()
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&data, releasingPool{r})}, nil
}

// releasingPool is the pool of the only buffer of a response. The buffer keeps the response in memory.
type releasingPool struct{ *countedResponse }

// Get implements mem.BufferPool.
func (releasingPool) Get(n int) *[]byte { return new(make([]byte, n)) }

// Put implements mem.BufferPool.
func (r releasingPool) Put(*[]byte) { r.release() }
