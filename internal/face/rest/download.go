package rest

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// httpBodyName is the name of the message that carries raw content instead of JSON.
var httpBodyName = (*httpbody.HttpBody)(nil).ProtoReflect().Descriptor().FullName()

// isDownload reports whether the method streams raw content.
func (rt *route) isDownload() bool {
	return rt.method.IsStreamingServer() && rt.method.Output().FullName() == httpBodyName
}

// offsetField returns the name of the request's field for the offset at which the content begins, or "" if there is no
// such field.
func (rt *route) offsetField() string {
	p, _ := proto.GetExtension(rt.method.Options(), fleetv1.E_Portion).(*fleetv1.Portion)
	return p.GetFrom()
}

// downloadHandler returns the GET and HEAD handler of a method that streams content.
func (f *face) downloadHandler(rt *route) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, _ map[string]string) {
		request, err := readRequest(r)
		if err != nil {
			writeError(w, err)
			return
		}
		ctx, err := runtime.AnnotateContext(r.Context(), f.gateway, r, rt.fullMethod())
		if err != nil {
			writeError(w, err)
			return
		}
		c := &contentStream{
			openStream: func(ctx context.Context) (func() (proto.Message, error), error) {
				return f.callStream(ctx, rt, request)
			},
			ctx: ctx, request: request.ProtoReflect(), offsetField: rt.field(rt.offsetField()),
			extendDeadline: func() { _ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(f.writeTimeout)) },
		}
		defer c.cancelStream()
		defer func() { _ = http.NewResponseController(w).SetWriteDeadline(noDeadline) }()
		// Open the stream first: a caller who may not see the content must not learn from an error about Accept-Encoding that it
		// exists.
		if err := c.open(); err != nil {
			writeError(w, err)
			return
		}
		c.serve(w, r)
	}
}

// serve writes the content, or the range of it that the request names. If the stream breaks, it closes the connection, so that the client
// does not mistake a part for the whole.
func (c *contentStream) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if c.info.GetContentEncoding() == "gzip" {
		h.Set("Vary", "Accept-Encoding")
		if !acceptsGzip(r.Header.Values("Accept-Encoding")) {
			writeError(w, &runtime.HTTPStatusError{HTTPStatus: http.StatusNotAcceptable, Err: wire.Invalid(wire.ReasonInvalidArgument, "",
				"the content is compressed by gzip, and the request does not accept that; send `Accept-Encoding: gzip` (curl --compressed)")})
			return
		}
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.FormatInt(c.size, 10)) // http.ServeContent does not set it together with a Content-Encoding
	}
	h.Set("Content-Type", c.mediaType)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox") // an agent wrote it, so a browser must not run it
	if name := c.info.GetFileName(); name != "" {
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	}
	tag := c.info.GetSha256()
	if c.baseOffset > 0 { // the content from an offset on is another representation, with another ETag
		tag += "-" + strconv.FormatInt(c.baseOffset, 10)
	}
	h.Set("ETag", strconv.Quote(tag))
	// A request for several ranges would open a stream for each, and each stream would unpack the whole content. A server may ignore the
	// header Range (RFC 9110, section 14.2).
	if c.offsetField == nil || strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range")
	}
	http.ServeContent(&rangeWriter{ResponseWriter: w, noRanges: c.offsetField == nil}, r, "", time.Time{}, c)
	if c.err != nil {
		panic(http.ErrAbortHandler)
	}
}

// rangeWriter replaces the response to an unsatisfiable range with an error object. It removes the headers about the content from the
// response to a failed precondition, which has no content.
type rangeWriter struct {
	http.ResponseWriter
	noRanges bool // the response must not offer ranges
	replaced bool
}

// WriteHeader sends the status.
func (w *rangeWriter) WriteHeader(status int) {
	if w.noRanges {
		w.Header().Del("Accept-Ranges")
	}
	if status != http.StatusRequestedRangeNotSatisfiable {
		if status == http.StatusPreconditionFailed {
			w.Header().Del("Content-Length")
			w.Header().Del("Content-Encoding")
		}
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.replaced = true
	w.Header().Del("Content-Disposition")
	writeError(w.ResponseWriter, &runtime.HTTPStatusError{HTTPStatus: status, Err: wire.Invalid(wire.ReasonInvalidArgument, "",
		"the header Range names bytes beyond the end of the content; Content-Range has the size of the content")})
}

// Write sends a piece of the content.
func (w *rangeWriter) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

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

// acceptsGzip reports whether the client accepts gzip as a content encoding (RFC 9110, section 12.5.3): the
// Accept-Encoding header names gzip or * with a weight above 0. The weight of gzip takes precedence over the weight of
// *.
func acceptsGzip(headers []string) bool {
	gzip, other := -1.0, -1.0
	for item := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(item, ";")
		weight := 1.0
		for param := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(param, "=")
			if strings.EqualFold(strings.TrimSpace(key), "q") {
				q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil || q < 0 || q > 1 {
					q = 0 // a weight that is not valid counts as 0
				}
				weight = q
			}
		}
		switch name = strings.ToLower(strings.TrimSpace(name)); name {
		case "gzip", "x-gzip":
			gzip = max(gzip, weight)
		case "*":
			other = max(other, weight)
		}
	}
	if gzip >= 0 {
		return gzip > 0
	}
	return other > 0
}
