package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

// bodyName is the message that is content, not JSON.
var bodyName = (*httpbody.HttpBody)(nil).ProtoReflect().Descriptor().FullName()

// isDownload says whether the method streams content, which is compressed by gzip.
func (rt *route) isDownload() bool {
	return rt.method.IsStreamingServer() && rt.method.Output().FullName() == bodyName
}

// download returns the handler of a method that streams content.
func (f *face) download(rt *route) runtime.HandlerFunc {
	name := rt.fullMethod()
	return func(w http.ResponseWriter, r *http.Request, inPath map[string]string) {
		body, _ := r.Body.(*decoded)
		request, err := rt.complete(body.request, inPath)
		if err != nil {
			writeError(w, err)
			return
		}
		ctx, err := runtime.AnnotateContext(r.Context(), f.gateway, r, name)
		if err != nil {
			writeError(w, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		recv, err := f.stream(ctx, name, request, contentType{})
		var piece proto.Message
		if err == nil {
			piece, err = recv()
		}
		// Whether there is anything comes first: who may not see it must not learn that there is by what is acceptable.
		if err != nil && !errors.Is(err, io.EOF) {
			writeError(w, err)
			return
		}
		w.Header().Set("Vary", "Accept-Encoding")
		if !takesGzip(r.Header.Values("Accept-Encoding")) {
			writeError(w, &runtime.HTTPStatusError{HTTPStatus: http.StatusNotAcceptable, Err: wire.Invalid(invalidArgument, "",
				"The content is compressed by gzip, and the request does not accept that; send `Accept-Encoding: gzip` (curl --compressed).")})
			return
		}
		f.copyContent(w, piece, recv, err)
	}
}

// copyContent writes the pieces. A stream that breaks cuts the connection: what came so far must not pass for all.
func (f *face) copyContent(w http.ResponseWriter, piece proto.Message, recv func() (proto.Message, error), err error) {
	w.Header().Set("Content-Encoding", "gzip")
	for first := true; ; first = false {
		if errors.Is(err, io.EOF) {
			return
		}
		content, ok := piece.(*httpbody.HttpBody)
		if err != nil || !ok {
			panic(http.ErrAbortHandler)
		}
		if first {
			w.Header().Set("Content-Type", content.GetContentType())
		}
		if _, err := w.Write(content.GetData()); err != nil {
			return
		}
		piece, err = recv()
	}
}

// contentType makes messages of content.
type contentType struct{ protoreflect.MessageType }

func (contentType) New() protoreflect.Message { return (&httpbody.HttpBody{}).ProtoReflect() }

// takesGzip says whether a client accepts gzip as a content encoding (RFC 9110, 12.5.3): it names it, or *, with a
// weight that is not 0. What it names counts before *.
func takesGzip(headers []string) bool {
	gzip, other := -1.0, -1.0
	for item := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		name, params, _ := strings.Cut(item, ";")
		weight := 1.0
		for param := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(param, "=")
			if strings.EqualFold(strings.TrimSpace(key), "q") {
				q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil || q < 0 || q > 1 {
					q = 0 // nothing that can be read as a wish
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
