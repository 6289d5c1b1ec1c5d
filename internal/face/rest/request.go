package rest

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/internal/face/wire"
)

const invalidArgument = "INVALID_ARGUMENT"

// read returns the request message: the fields of the path with their values, and the others from the body or the query.
// The service checks the values.
func (rt *route) read(r *http.Request, values []string) (proto.Message, error) {
	for i, name := range rt.fields {
		switch value := values[i]; {
		case value == "":
			return nil, wire.Invalid(wire.InvalidReason(rt.field(name)), name, "the path has no %s: %s", name, rt.template)
		case !utf8.ValidString(value):
			return nil, wire.Invalid(wire.InvalidReason(rt.field(name)), name, "%s in the path is not valid UTF-8: escape it as UTF-8", name)
		}
	}
	request := rt.request.New()
	if r.URL.RawQuery != "" {
		if err := rt.readQuery(r, request.Interface()); err != nil {
			return nil, err
		}
	}
	if rt.hasBody {
		if err := checkContent(r); err != nil {
			return nil, err
		}
		if err := rt.readBody(r, request.Interface()); err != nil {
			return nil, err
		}
	} else if err := rt.refuseBody(r); err != nil {
		return nil, err
	}
	for i, name := range rt.fields {
		field := rt.field(name)
		if given := request.Get(field).String(); given != "" && given != values[i] {
			return nil, wire.Invalid(wire.InvalidReason(field), name, "%s is %q in the path and %q in the body; leave it out of the body",
				name, wire.Shorten(values[i]), wire.Shorten(given))
		}
		request.Set(field, protoreflect.ValueOfString(values[i]))
	}
	return request.Interface(), nil
}

// readQuery reads the query into a request whose fields are in the query. It converts the query to JSON first, so that
// package wire reports a bad value in the same words as for a body.
func (rt *route) readQuery(r *http.Request, request proto.Message) error {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return wire.Invalid(invalidArgument, "", "the query cannot be read: separate the parameters with & and escape their values")
	}
	object := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, err := rt.parameter(name)
		if err != nil {
			return err
		}
		if len(values[name]) > 1 && !field.IsList() {
			return wire.Invalid(wire.InvalidReason(field), name, "%s is given %d times in the query; give it once", name, len(values[name]))
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
		return nil, wire.Invalid(invalidArgument, name, "%s is in the path already; leave it out of the query", name)
	case rt.hasBody && slices.Contains(known, name):
		return nil, wire.Invalid(invalidArgument, name, "%s takes its fields in the body; put %s there, not into the query", rt, name)
	case rt.hasBody || len(known) == 0:
		return nil, wire.Invalid(invalidArgument, name, "unknown query parameter %q: %s takes none", wire.Shorten(name), rt)
	case slices.Contains(known, name):
		return rt.field(name), nil
	}
	if near := wire.Nearest(name, known); near != "" {
		return nil, wire.Invalid(invalidArgument, name, "unknown query parameter %q: did you mean %q?", wire.Shorten(name), near)
	}
	return nil, wire.Invalid(invalidArgument, name, "unknown query parameter %q: the known ones are %s", wire.Shorten(name), strings.Join(known, ", "))
}

// literals returns the values of a query parameter as JSON.
func literals(field protoreflect.FieldDescriptor, values []string) (json.RawMessage, error) {
	list := make([]json.RawMessage, len(values))
	for i, v := range values {
		if !utf8.ValidString(v) {
			return nil, wire.Invalid(wire.InvalidReason(field), string(field.Name()), "%s in the query is not valid UTF-8: escape it as UTF-8", field.Name())
		}
		list[i] = literal(field, v)
	}
	if !field.IsList() {
		return list[0], nil
	}
	return json.Marshal(list)
}

// whole matches a whole number as JSON writes it.
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
