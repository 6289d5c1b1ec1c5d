package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// value checks one value of v's type. t is its first token. f is the field that it belongs to: v itself, or the map
// whose values v describes.
func (c *checker) value(f, v protoreflect.FieldDescriptor, t json.Token, at string) error {
	switch v.Kind() {
	case protoreflect.BoolKind:
		if _, ok := t.(bool); !ok {
			return wrongType(f, at, "true or false", t)
		}
	case protoreflect.StringKind:
		if _, ok := t.(string); !ok {
			return wrongType(f, at, "a string", t)
		}
	case protoreflect.BytesKind:
		return bytesValue(f, t, at)
	case protoreflect.EnumKind:
		return enumValue(f, v.Enum(), t, at)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return floatValue(f, t, at)
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return c.messageValue(f, v.Message(), t, at)
	default:
		return wholeValue(f, v.Kind(), t, at)
	}
	return nil
}

// messageValue checks a message. A wrapper has the JSON form of the value it wraps. Other well-known types are left to
// protojson.
func (c *checker) messageValue(f protoreflect.FieldDescriptor, m protoreflect.MessageDescriptor, t json.Token, at string) error {
	if m.ParentFile().Package() != "google.protobuf" {
		if t != json.Delim('{') {
			return wrongType(f, at, "an object", t)
		}
		return c.object(m, at)
	}
	switch m.Name() {
	case "StringValue", "BytesValue", "BoolValue", "Int32Value", "UInt32Value", "Int64Value", "UInt64Value", "FloatValue", "DoubleValue":
		return c.value(f, m.Fields().ByName("value"), t, at)
	case "Timestamp":
		text, ok := t.(string)
		if !ok {
			return wrongType(f, at, "a string", t)
		}
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return Invalid(InvalidReason(f), at, "%s must be a time like 2026-11-22T10:30:00Z, got %q.", at, short(text))
		}
	case "Duration", "FieldMask":
		if _, ok := t.(string); !ok {
			return wrongType(f, at, "a string", t)
		}
	case "Struct":
		if t != json.Delim('{') {
			return wrongType(f, at, "an object", t)
		}
	}
	return c.skip(t)
}

func bytesValue(f protoreflect.FieldDescriptor, t json.Token, at string) error {
	s, ok := t.(string)
	if !ok {
		return wrongType(f, at, "a string in base64", t)
	}
	if _, err := base64.StdEncoding.DecodeString(s); err != nil {
		return Invalid(InvalidReason(f), at, "%s must be a string in base64: %s.", at, err)
	}
	return nil
}

func enumValue(f protoreflect.FieldDescriptor, e protoreflect.EnumDescriptor, t json.Token, at string) error {
	var names []string
	for i := range e.Values().Len() {
		if v := e.Values().Get(i); v.Number() != 0 { // the zero value means not given
			names = append(names, string(v.Name()))
		}
	}
	allowed := strings.Join(names, ", ")
	s, ok := t.(string)
	if !ok {
		return wrongType(f, at, "one of "+allowed, t)
	}
	for _, n := range names {
		if n == s {
			return nil
		}
	}
	hint := ""
	if near := Nearest(s, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return Invalid(InvalidReason(f), at, "%s must be one of %s, got %q%s", at, allowed, short(s), hint)
}

func floatValue(f protoreflect.FieldDescriptor, t json.Token, at string) error {
	n, ok := t.(json.Number)
	if !ok {
		return wrongType(f, at, "a number", t)
	}
	if x, err := n.Float64(); err != nil || math.IsInf(x, 0) {
		return Invalid(InvalidReason(f), at, "%s is too large: %s.", at, short(n.String()))
	}
	return nil
}

// bounds has the smallest and largest value of each integer kind.
var bounds = map[protoreflect.Kind][2]float64{
	protoreflect.Int32Kind: {math.MinInt32, math.MaxInt32}, protoreflect.Sint32Kind: {math.MinInt32, math.MaxInt32},
	protoreflect.Sfixed32Kind: {math.MinInt32, math.MaxInt32},
	protoreflect.Uint32Kind:   {0, math.MaxUint32}, protoreflect.Fixed32Kind: {0, math.MaxUint32},
	protoreflect.Int64Kind: {math.MinInt64, math.MaxInt64}, protoreflect.Sint64Kind: {math.MinInt64, math.MaxInt64},
	protoreflect.Sfixed64Kind: {math.MinInt64, math.MaxInt64},
	protoreflect.Uint64Kind:   {0, math.MaxUint64}, protoreflect.Fixed64Kind: {0, math.MaxUint64},
}

// wholeValue checks an integer. 64-bit integers may be quoted, as ProtoJSON writes them.
func wholeValue(f protoreflect.FieldDescriptor, k protoreflect.Kind, t json.Token, at string) error {
	limit := bounds[k]
	n, ok := t.(json.Number)
	if s, quoted := t.(string); quoted && limit[1] > math.MaxUint32 {
		n, ok = json.Number(s), true
	}
	if !ok {
		return wrongType(f, at, "a whole number", t)
	}
	x, err := strconv.ParseFloat(n.String(), 64)
	switch {
	case err != nil && !math.IsInf(x, 0):
		return wrongType(f, at, "a whole number", t)
	case x < limit[0] || x > limit[1]:
		return Invalid(InvalidReason(f), at, "%s must be a whole number from %.0f to %.0f, got %s.", at, limit[0], limit[1], short(n.String()))
	case x != math.Trunc(x):
		return Invalid(InvalidReason(f), at, "%s must be a whole number, got %s.", at, short(n.String()))
	}
	return nil
}

func wrongType(f protoreflect.FieldDescriptor, at, want string, got json.Token) error {
	return Invalid(InvalidReason(f), at, "%s must be %s, got %s.", at, want, nameOf(got))
}

// nameOf names the kind of JSON value that begins with the token.
func nameOf(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(t)
	case string:
		return "the string " + strconv.Quote(short(t))
	case json.Number:
		return "the number " + short(t.String())
	}
	if t == json.Delim('[') {
		return "a list"
	}
	return "an object"
}

// short shortens what a client sent, so that an error does not echo megabytes.
func short(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	cut := most
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
