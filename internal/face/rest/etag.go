package rest

import (
	"context"
	"net/http"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/encoded"
)

// isList reports whether the route answers a GET with a list, which means that the answer's first field is a list.
func (rt *route) isList() bool {
	fields := rt.method.Output().Fields()
	return rt.verb == http.MethodGet && !rt.method.IsStreamingServer() &&
		fields.Len() > 0 && fields.Get(0).IsList() && fields.Get(0).Kind() == protoreflect.MessageKind
}

// listWriter writes the answer to a GET of a list. It adds an entity tag, and answers 304 without the list if the client
// has a list with this tag (RFC 9110, section 13.1.2).
type listWriter struct {
	http.ResponseWriter
	ctx         context.Context //nolint:containedctx // of the request, for its offer
	ifNoneMatch []string        // the If-None-Match header
	wroteHeader bool
	noBody      bool // the body is left out
}

// Unwrap returns the writer for http.ResponseController.
func (w *listWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status of an error.
func (w *listWriter) WriteHeader(status int) {
	w.wroteHeader = true
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the list. The gateway writes it in one piece.
func (w *listWriter) Write(b []byte) (int, error) {
	if !w.wroteHeader {
		w.wroteHeader = true
		tag := w.tag(b)
		h := w.Header()
		h.Set("ETag", tag)
		h.Set("Cache-Control", "private, no-cache") // only the caller may cache the list, and must revalidate it each time
		h.Set("Vary", "Authorization")
		if hasTag(w.ifNoneMatch, tag) {
			w.noBody = true
			h.Del("Content-Type")
			h.Del("Content-Length")
			w.ResponseWriter.WriteHeader(http.StatusNotModified)
		}
	}
	if w.noBody {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// tag returns the entity tag of the body.
func (w *listWriter) tag(body []byte) string {
	if a := encoded.OfferOf(w.ctx).Answer(); a != nil {
		if tag, err := a.Tag(); err == nil {
			return tag // this needs no hash of the body
		}
	}
	return encoded.Tag(body)
}

// hasTag reports whether the header If-None-Match names the tag or is *. The comparison is weak: W/"x" equals "x".
func hasTag(header []string, tag string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		item = strings.TrimSpace(item)
		if item == "*" || strings.TrimPrefix(item, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
