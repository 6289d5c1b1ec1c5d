package rest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// contentStream makes the stream of a method an io.ReadSeeker for http.ServeContent: a read after a seek opens a new
// stream.
type contentStream struct {
	openStream     func(ctx context.Context) (recv func() (proto.Message, error), err error)
	ctx            context.Context //nolint:containedctx // of the request; the streams use it
	request        protoreflect.Message
	offsetField    protoreflect.FieldDescriptor // field of the request; nil if the method can only stream the whole
	extendDeadline func()                       // extends the deadline for writing to the client; called after each read

	info             *fleetv1.PayloadInfo
	mediaType        string
	baseOffset, size int64 // the requested offset at which the content begins, and its size from there, in bytes

	recv                     func() (proto.Message, error)
	cancel                   context.CancelFunc
	pending                  []byte
	streamOffset, readOffset int64 // from baseOffset: the offset of the next byte of the stream, and the offset of the next read
	err                      error // why a read failed
}

// errNoInfo is returned for a stream whose first message has no PayloadInfo.
var errNoInfo = errors.New("rest: the content is not described")

// open opens the first stream and reads the description of the content from its first message.
func (c *contentStream) open() error {
	if c.offsetField != nil {
		c.baseOffset = c.request.Get(c.offsetField).Int()
	}
	if err := c.restart(0); err != nil {
		return err
	}
	m, err := c.recv()
	if err != nil {
		return err
	}
	body, _ := m.(*httpbody.HttpBody)
	c.info = &fleetv1.PayloadInfo{}
	if len(body.GetExtensions()) == 0 || body.GetExtensions()[0].UnmarshalTo(c.info) != nil {
		return errNoInfo
	}
	c.mediaType, c.pending, c.size = body.GetContentType(), body.GetData(), c.info.GetSize()-c.baseOffset
	return nil
}

// restart closes the stream and opens another one that begins at the offset, counted from baseOffset.
func (c *contentStream) restart(offset int64) error {
	c.cancelStream()
	if c.offsetField != nil {
		c.request.Set(c.offsetField, protoreflect.ValueOfInt64(c.baseOffset+offset))
	}
	ctx, stop := context.WithCancel(c.ctx)
	recv, err := c.openStream(ctx)
	c.recv, c.cancel, c.pending, c.streamOffset = recv, stop, nil, offset
	return err
}

func (c *contentStream) cancelStream() {
	if c.cancel != nil {
		c.cancel()
	}
}

// Seek sets the offset of the next read.
func (c *contentStream) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.readOffset
	case io.SeekEnd:
		offset += c.size
	}
	c.readOffset = offset
	return c.readOffset, nil
}

// Read reads the next bytes.
func (c *contentStream) Read(b []byte) (n int, err error) {
	if n, err = c.read(b); err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

func (c *contentStream) read(b []byte) (int, error) {
	defer c.extendDeadline() // the limit is for the client, not for the store
	if c.readOffset >= c.size {
		return 0, io.EOF
	}
	if c.readOffset != c.streamOffset {
		if err := c.restart(c.readOffset); err != nil {
			return 0, err
		}
	}
	for len(c.pending) == 0 {
		m, err := c.recv()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		body, _ := m.(*httpbody.HttpBody)
		c.pending = body.GetData()
	}
	n := copy(b, c.pending)
	c.pending = c.pending[n:]
	c.streamOffset += int64(n)
	c.readOffset = c.streamOffset
	return n, nil
}
