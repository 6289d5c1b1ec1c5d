package rest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/encoded"
	"fleet/internal/face/wire"
)

// checkRequests returns a handler that identifies the caller, and passes a request to h, the gateway's handler or a custom one, if the path
// and the query fit the method's request message. It replaces the body with one whose read errors are clear to the client. The gateway alone
// would ignore unknown query parameters, accept enum values by number and bodies of any content type, and name Go functions in its errors.
// The service checks the values themselves.
func (f *face) checkRequests(h runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, pathValues map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		rt, ok := f.routesByKey[r.Method+" "+pattern.String()]
		if !ok {
			writeError(w, errors.New("rest: a route without a method"))
			return
		}
		ctx, _ := encoded.NewReceiver(r.Context())
		if ctx, ok = f.identify(ctx, w, r, rt); !ok {
			return
		}
		r = r.WithContext(ctx)
		if r.ContentLength > f.config.MaxBodyBytes { // refuse before reading any of it
			w.Header().Set("Connection", "close")
			writeError(w, newTooLargeError(f.config.MaxBodyBytes))
			return
		}
		b, err := rt.checkRequest(r, pathValues)
		if err != nil {
			writeError(w, err)
			return
		}
		r.Body = b
		if !rt.method.IsStreamingServer() {
			w = newResponseWriter(w, r, rt)
		}
		h(w, r, pathValues)
	}
}

// identify returns ctx with the caller of the request. If the caller is not identified, identify writes the error and returns false.
func (f *face) identify(ctx context.Context, w http.ResponseWriter, r *http.Request, rt *route) (context.Context, bool) {
	if f.config.Identify == nil {
		return ctx, true
	}
	ctx, err := f.config.Identify(ctx, rt.fullMethod(), r.Header.Values("Authorization"))
	if err == nil {
		return ctx, true
	}
	if r.ContentLength != 0 { // do not wait for the rest of the body
		w.Header().Set("Connection", "close")
	}
	if clientRequest, ok := ctx.Value(clientRequestKey{}).(*http.Request); ok && wire.HTTPStatus(err) == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", f.config.Challenge(clientRequest))
	}
	writeError(w, err)
	return ctx, false
}

// checkRequest checks everything but the content of the body, and returns the body. The check may replace r.Body.
func (rt *route) checkRequest(r *http.Request, pathValues map[string]string) (*body, error) {
	for _, name := range rt.pathFields {
		switch value := pathValues[name]; {
		case value == "":
			return nil, wire.Invalid(wire.InvalidReason(rt.field(name)), name, "the path has no %s: %s", name, rt.template)
		case !utf8.ValidString(value):
			return nil, wire.Invalid(wire.InvalidReason(rt.field(name)), name, "%s in the path is not valid UTF-8: escape it as UTF-8", name)
		}
	}
	b := &body{route: rt, pathValues: pathValues, size: r.ContentLength}
	if r.URL.RawQuery != "" {
		b.queryRequest = rt.request.New().Interface()
		if err := rt.readQuery(r, b.queryRequest); err != nil {
			return nil, err
		}
	}
	check := rt.refuseBody
	if rt.hasBody {
		check = checkContentType
	}
	err := check(r)
	b.ReadCloser = r.Body // the check may have replaced it
	return b, err
}

// readQuery reads the query into the request. It refuses a query on a route whose fields are in the body. It converts the query to JSON
// first, so that package wire reports a bad value in the same words as for a body.
func (rt *route) readQuery(r *http.Request, request proto.Message) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wire.Invalid(wire.ReasonInvalidArgument, "", "the query cannot be read: separate the parameters with & and escape their values")
	}
	object := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, err := rt.queryField(name)
		if err != nil {
			return err
		}
		if len(values[name]) > 1 && !field.IsList() {
			return wire.Invalid(wire.InvalidReason(field), name, "%s is given %d times in the query; give it once", name, len(values[name]))
		}
		if object[name], err = jsonValues(field, values[name]); err != nil {
			return err
		}
	}
	if len(object) == 0 {
		return nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return wire.Unmarshal(data, request)
}

// queryField returns the field that a query parameter sets, or an error if there is none.
func (rt *route) queryField(name string) (protoreflect.FieldDescriptor, error) {
	allowed := rt.nonPathFields()
	switch {
	case slices.Contains(rt.pathFields, name):
		return nil, wire.Invalid(wire.ReasonInvalidArgument, name, "%s is in the path already; leave it out of the query", name)
	case rt.hasBody && slices.Contains(allowed, name):
		return nil, wire.Invalid(wire.ReasonInvalidArgument, name, "%s takes its fields in the body; put %s there, not into the query", rt, name)
	case rt.hasBody || len(allowed) == 0:
		return nil, wire.Invalid(wire.ReasonInvalidArgument, name, "unknown query parameter %q: %s takes none", wire.Shorten(name), rt)
	case slices.Contains(allowed, name):
		return rt.field(name), nil
	}
	if near := wire.Nearest(name, allowed); near != "" {
		return nil, wire.Invalid(wire.ReasonInvalidArgument, name, "unknown query parameter %q: did you mean %q?", wire.Shorten(name), near)
	}
	return nil, wire.Invalid(wire.ReasonInvalidArgument, name, "unknown query parameter %q: the known ones are %s", wire.Shorten(name), strings.Join(allowed, ", "))
}

// jsonValues returns the values of a query parameter as JSON: a list for a list field, otherwise the first value.
func jsonValues(field protoreflect.FieldDescriptor, values []string) (json.RawMessage, error) {
	list := make([]json.RawMessage, len(values))
	for i, v := range values {
		if !utf8.ValidString(v) {
			return nil, wire.Invalid(wire.InvalidReason(field), string(field.Name()), "%s in the query is not valid UTF-8: escape it as UTF-8", field.Name())
		}
		list[i] = jsonValue(field, v)
	}
	if !field.IsList() {
		return list[0], nil
	}
	return json.Marshal(list)
}

// wholeNumber matches a whole number as both the gateway and JSON read it.
var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)

// jsonValue returns the value as JSON: unquoted if it looks like the field's type, else as a string. Package wire refuses
// the string if the field is not a string.
func jsonValue(field protoreflect.FieldDescriptor, value string) json.RawMessage {
	unquoted := false
	switch field.Kind() {
	case protoreflect.BoolKind:
		unquoted = value == "true" || value == "false"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		var x float64
		unquoted = json.Unmarshal([]byte(value), &x) == nil && value != "null" && !math.IsInf(x, 0)
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind, protoreflect.MessageKind, protoreflect.GroupKind:
	default:
		unquoted = wholeNumber.MatchString(value)
	}
	if unquoted {
		return json.RawMessage(value)
	}
	quoted, _ := json.Marshal(value) // a string can always be marshalled
	return quoted
}
