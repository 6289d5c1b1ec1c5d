package rest

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"fleet/internal/face/encoded"
)

// minGzip is the size of the smallest response that is compressed, in bytes. Smaller ones fit into a packet or two.
const minGzip = 1 << 10

// responseWriter writes a response that is not a stream. It compresses large responses for clients that accept gzip. It adds an
// entity tag to a list, and answers 304 without the list if the client has a list with this tag (RFC 9110, section 13.1.2). The tags are
// weak, so a compressed list has the same tag.
//
// An attacker who makes a victim repeat requests cannot learn a secret from the length of compressed responses (BREACH). Another site cannot
// make requests as the caller: it has neither the token nor, because of SameSite=Strict, the cookie of the page. And a new secret is
// in only one response.
type responseWriter struct {
	http.ResponseWriter
	ctx         context.Context //nolint:containedctx // of the request, for its receiver
	isList      bool
	gzip        bool     // the client accepts it
	ifNoneMatch []string // the If-None-Match header
	wroteHeader bool
	noBody      bool // the status is 304, so no body is sent
}

func newResponseWriter(w http.ResponseWriter, r *http.Request, rt *route) *responseWriter {
	return &responseWriter{
		ResponseWriter: w, ctx: r.Context(), isList: rt.isList,
		gzip: acceptsGzip(r.Header.Values("Accept-Encoding")), ifNoneMatch: r.Header.Values("If-None-Match"),
	}
}

// Unwrap returns the writer for http.ResponseController.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader sends the status. The gateway calls it only for errors, whose bodies are then sent unchanged.
func (w *responseWriter) WriteHeader(status int) {
	w.wroteHeader = true
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the response. The gateway writes it in one piece.
func (w *responseWriter) Write(b []byte) (int, error) {
	if w.wroteHeader {
		if w.noBody {
			return len(b), nil
		}
		return w.ResponseWriter.Write(b)
	}
	w.wroteHeader = true
	h := w.Header()
	tagOf, gzipOf := func() string { return encoded.Tag(b) }, func() []byte { return encoded.Gzip(b) }
	if shared := encoded.ReceiverFrom(w.ctx).Response(); shared != nil {
		if j, err := shared.JSON(); err == nil {
			tagOf, gzipOf = j.Tag, j.Gzip // made once for all calls that share the response
		}
	}
	h.Set("Vary", "Accept-Encoding")
	if w.isList {
		tag := tagOf()
		h.Set("ETag", tag)
		h.Set("Cache-Control", "private, no-cache") // only the caller may cache the list, and must revalidate it each time
		h.Set("Vary", "Authorization, Accept-Encoding")
		if hasTag(w.ifNoneMatch, tag) {
			w.noBody = true
			h.Del("Content-Type")
			h.Del("Content-Length")
			w.ResponseWriter.WriteHeader(http.StatusNotModified)
			return len(b), nil
		}
	}
	if !w.gzip || len(b) < minGzip {
		return w.ResponseWriter.Write(b)
	}
	packed := gzipOf()
	h.Set("Content-Encoding", "gzip")
	h.Set("Content-Length", strconv.Itoa(len(packed)))
	if _, err := w.ResponseWriter.Write(packed); err != nil {
		return 0, err
	}
	return len(b), nil
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
