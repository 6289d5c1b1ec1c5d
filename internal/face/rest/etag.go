package rest

import (
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

// writeList writes the answer to a GET of a list. It adds an entity tag, and answers 304 without the list if the client
// has a list with this tag (RFC 9110, section 13.1.2).
func writeList(w http.ResponseWriter, r *http.Request, line []byte, offer *encoded.Offer) {
	tag := tagOf(line, offer)
	h := w.Header()
	h.Set("ETag", tag)
	h.Set("Cache-Control", "private, no-cache") // only the caller may cache the list, and must revalidate it each time
	h.Set("Vary", "Authorization")
	if hasTag(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, http.StatusOK, line)
}

// tagOf returns the entity tag of an answer.
func tagOf(line []byte, offer *encoded.Offer) string {
	if a := offer.Answer(); a != nil {
		if tag, err := a.Tag(); err == nil {
			return tag // this needs no hash of the line
		}
	}
	return encoded.Tag(line)
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
