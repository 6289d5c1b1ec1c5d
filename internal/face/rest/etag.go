package rest

import (
	"net/http"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// isList reports whether the route answers a GET with a list, which means that the answer's first field is a list.
func (rt *route) isList() bool {
	fields := rt.method.Output().Fields()
	return rt.verb == http.MethodGet && !rt.method.IsStreamingServer() &&
		fields.Len() > 0 && fields.Get(0).IsList() && fields.Get(0).Kind() == protoreflect.MessageKind
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
