package rest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

const invalidArgument = "INVALID_ARGUMENT"

// checked passes a request on to the gateway's handler, or to the custom handler h, if its path, query and body fit the
// method's request message. The gateway alone would ignore unknown query parameters, accept enum values by number and
// bodies of any content type, and name Go's own functions in its errors. The service checks the values themselves.
func (f *face) checked(h runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, inPath map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		rt, ok := f.byKey[r.Method+" "+pattern.String()]
		if !ok {
			writeError(w, errors.New("rest: a route without a method"))
			return
		}
		if f.config.Identify != nil {
			ctx, err := f.config.Identify(r.Context(), rt.fullMethod(), r.Header.Values("Authorization"))
			if err != nil {
				if r.ContentLength != 0 { // do not wait for the rest of the body
					w.Header().Set("Connection", "close")
				}
				writeError(w, err)
				return
			}
			r = r.WithContext(ctx)
		}
		if r.ContentLength > f.config.MaxBodyBytes { // refuse before reading any of it
			w.Header().Set("Connection", "close")
			writeError(w, tooLarge(f.config.MaxBodyBytes))
			return
		}
		request, err := rt.read(r, inPath)
		if err != nil {
			writeError(w, err)
			return
		}
		r.Body = &decoded{request}
		h(w, r, inPath)
	}
}

// read returns the request, with the fields that the query or the body sets.
func (rt *route) read(r *http.Request, inPath map[string]string) (proto.Message, error) {
	for _, name := range rt.fields {
		switch value := inPath[name]; {
		case value == "":
			return nil, wire.Invalid(wire.InvalidReason(rt.field(name)), name, "The path has no %s: %s.", name, rt.template)
		case !utf8.ValidString(value):
			return nil, wire.Invalid(wire.InvalidReason(rt.field(name)), name, "%s in the path is not valid UTF-8: escape it as UTF-8.", name)
		}
	}
	request := rt.request.New().Interface()
	if err := rt.readQuery(r, request); err != nil {
		return nil, err
	}
	if !rt.hasBody {
		return request, rt.refuseBody(r)
	}
	return request, rt.readBody(r, request, inPath)
}

// readQuery reads the query into a request whose fields are in the query. It converts the query to JSON first, so that
// package wire reports a bad value in the same words as for a body.
func (rt *route) readQuery(r *http.Request, request proto.Message) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wire.Invalid(invalidArgument, "", "The query cannot be read: separate the parameters with & and escape their values.")
	}
	object := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, err := rt.parameter(name)
		if err != nil {
			return err
		}
		if len(values[name]) > 1 && !field.IsList() {
			return wire.Invalid(wire.InvalidReason(field), name, "%s is given %d times in the query; give it once.", name, len(values[name]))
		}
		if object[name], err = literals(field, values[name]); err != nil {
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

// parameter returns the field that a query parameter sets.
func (rt *route) parameter(name string) (protoreflect.FieldDescriptor, error) {
	known := rt.rest()
	switch {
	case slices.Contains(rt.fields, name):
		return nil, wire.Invalid(invalidArgument, name, "%s is in the path already; leave it out of the query.", name)
	case rt.hasBody && slices.Contains(known, name):
		return nil, wire.Invalid(invalidArgument, name, "%s takes its fields in the body; put %s there, not into the query.", rt, name)
	case rt.hasBody || len(known) == 0:
		return nil, wire.Invalid(invalidArgument, name, "unknown query parameter %q: %s takes none.", cut(name), rt)
	case slices.Contains(known, name):
		return rt.field(name), nil
	}
	if near := wire.Nearest(name, known); near != "" {
		return nil, wire.Invalid(invalidArgument, name, "unknown query parameter %q: did you mean %q?", cut(name), near)
	}
	return nil, wire.Invalid(invalidArgument, name, "unknown query parameter %q: the known ones are %s.", cut(name), strings.Join(known, ", "))
}

// literals returns the values of a query parameter as JSON.
func literals(field protoreflect.FieldDescriptor, values []string) (json.RawMessage, error) {
	list := make([]json.RawMessage, len(values))
	for i, v := range values {
		if !utf8.ValidString(v) {
			return nil, wire.Invalid(wire.InvalidReason(field), string(field.Name()), "%s in the query is not valid UTF-8: escape it as UTF-8.", field.Name())
		}
		list[i] = literal(field, v)
	}
	if !field.IsList() {
		return list[0], nil
	}
	return json.Marshal(list)
}

// whole matches a whole number as both the gateway and JSON read it.
var whole = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)

// literal returns the value as JSON: unquoted if it looks like the field's type, else as a string. Package wire refuses
// the string if the field is not a string.
func literal(field protoreflect.FieldDescriptor, value string) json.RawMessage {
	plain := false
	switch field.Kind() {
	case protoreflect.BoolKind:
		plain = value == "true" || value == "false"
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		var x float64
		plain = json.Unmarshal([]byte(value), &x) == nil && value != "null" && !math.IsInf(x, 0)
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind, protoreflect.MessageKind, protoreflect.GroupKind:
	default:
		plain = whole.MatchString(value)
	}
	if plain {
		return json.RawMessage(value)
	}
	quoted, _ := json.Marshal(value) // a string can always be marshalled
	return quoted
}

// readBody reads the body into a request whose fields are in the body.
func (rt *route) readBody(r *http.Request, request proto.Message, inPath map[string]string) error {
	if err := checkContent(r); err != nil {
		return err
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return tooLarge(large.Limit)
		}
		return wire.Invalid(invalidArgument, "", "The body ended too early.")
	}
	if required := rt.required(); len(required) > 0 && len(bytes.TrimSpace(data)) == 0 {
		return wire.Invalid(wire.InvalidReason(rt.field(required[0])), required[0],
			"The body is empty; send a JSON object with %s.", strings.Join(required, ", "))
	}
	if err := wire.Unmarshal(data, request); err != nil {
		return err
	}
	for _, name := range rt.fields {
		field, m := rt.field(name), request.ProtoReflect()
		if given := m.Get(field).String(); m.Has(field) && given != inPath[name] {
			return wire.Invalid(wire.InvalidReason(field), name, "%s is %q in the path and %q in the body; leave it out of the body.",
				name, cut(inPath[name]), cut(given))
		}
	}
	return nil
}

// tooLarge returns the error for a body that is larger than the limit.
func tooLarge(limit int64) error {
	return &runtime.HTTPStatusError{HTTPStatus: http.StatusRequestEntityTooLarge, Err: wire.Invalid(invalidArgument, "",
		"The body is larger than the %d bytes that the server reads; send less.", limit)}
}

// checkContent refuses a body whose content type is not JSON. A body without a content type counts as JSON.
func checkContent(r *http.Request) error {
	if r.ContentLength == 0 {
		return nil
	}
	refuse := func(format string, args ...any) error {
		return &runtime.HTTPStatusError{HTTPStatus: http.StatusUnsupportedMediaType, Err: wire.Invalid(invalidArgument, "", format, args...)}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refuse("The body is encoded as %q; send it as it is, without Content-Encoding.", cut(coding))
	}
	content := r.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(content)
	if media == curlMediaType && beginsAsObject(r) {
		r.Header.Set("Content-Type", "application/json")
		return nil
	}
	if content != "" && (err != nil || media != "application/json" && !strings.HasSuffix(media, "+json")) {
		return refuse("The body is of the type %q; send JSON, with `Content-Type: application/json`.", cut(content))
	}
	return nil
}

// curlMediaType is the content type that curl -d sends by default. A web page of another origin may send it without a
// preflight request, but the guard has refused such requests by now.
const curlMediaType = "application/x-www-form-urlencoded"

// beginsAsObject reports whether the body begins as a JSON object does. It consumes nothing.
func beginsAsObject(r *http.Request) bool {
	b := bufio.NewReaderSize(r.Body, 512)
	begin, _ := b.Peek(1) // an empty or broken body is reported when it is read
	for n := 1; n < 512 && len(begin) == n && strings.ContainsRune(" \t\r\n", rune(begin[n-1])); n++ {
		begin, _ = b.Peek(n + 1)
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{b, r.Body}
	return strings.HasPrefix(strings.TrimLeft(string(begin), " \t\r\n"), "{")
}

// refuseBody refuses the body of a request whose fields are in the query, because its content would be ignored.
func (rt *route) refuseBody(r *http.Request) error {
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n == 0 {
		return nil
	}
	if known := rt.rest(); len(known) > 0 {
		return wire.Invalid(invalidArgument, "", "%s takes no body; put %s into the query.", rt, strings.Join(known, ", "))
	}
	return wire.Invalid(invalidArgument, "", "%s takes no body; send none.", rt)
}

// cut shortens and escapes a value that a client sent, so that an error does not echo megabytes.
func cut(s string) string {
	const most = 100
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= most {
		return s
	}
	end := most
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
