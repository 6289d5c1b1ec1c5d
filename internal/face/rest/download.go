package rest

import (
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"

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
	replaced bool // the error object was sent instead of the content
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
