package wire

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// The functions of this file append JSON to b in one pass, in the order of the proto file. protojson needs several
// passes, which dominate the cost of a call over REST or MCP.

// appendMessage appends an object, or the special form of a well-known type.
func appendMessage(b []byte, m protoreflect.Message) ([]byte, error) {
	d := m.Descriptor()
	if d.ParentFile().Package() == "google.protobuf" {
		return appendWellKnown(b, m)
	}
	b = append(b, '{')
	fields := d.Fields()
	for i, first := 0, true; i < fields.Len(); i++ {
		f := fields.Get(i)
		set := m.Has(f)
		if !set && f.ContainingOneof() != nil { // an optional field is in a oneof of its own
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, f.Name()...)
		b = append(b, '"', ':')
		if !set && f.HasPresence() {
			b = append(b, "null"...)
			continue
		}
		var err error
		if b, err = appendField(b, f, m.Get(f)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendWellKnown appends a wrapper as the value it wraps, and leaves other types to protojson.
func appendWellKnown(b []byte, m protoreflect.Message) ([]byte, error) {
	d := m.Descriptor()
	switch d.Name() {
	case "StringValue", "BytesValue", "BoolValue", "Int32Value", "UInt32Value", "Int64Value", "UInt64Value", "FloatValue", "DoubleValue":
		value := d.Fields().ByName("value")
		return appendValue(b, value, m.Get(value))
	}
	loose, err := protojson.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	compact := bytes.NewBuffer(b)
	err = json.Compact(compact, loose)
	return compact.Bytes(), err
}

func appendField(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch {
	case f.IsMap():
		return appendMap(b, f.MapValue(), v.Map())
	case f.IsList():
		return appendList(b, f, v.List())
	}
	return appendValue(b, f, v)
}

func appendList(b []byte, f protoreflect.FieldDescriptor, list protoreflect.List) (_ []byte, err error) {
	b = append(b, '[')
	for i := range list.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, f, list.Get(i)); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendMap appends an object with sorted keys.
func appendMap(b []byte, f protoreflect.FieldDescriptor, entries protoreflect.Map) (_ []byte, err error) {
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	for k := range entries.Range {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendString(b, k.String()); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = appendValue(b, f, entries.Get(k)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// compareKeys orders texts by their bytes, numbers by value, and false before true.
func compareKeys(x, y protoreflect.MapKey) int {
	switch x.Interface().(type) {
	case int32, int64:
		return cmp.Compare(x.Int(), y.Int())
	case uint32, uint64:
		return cmp.Compare(x.Uint(), y.Uint())
	}
	return cmp.Compare(x.String(), y.String())
}

// appendValue appends one value of field f.
func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch f.Kind() {
	case protoreflect.StringKind:
		return appendString(b, v.String())
	case protoreflect.EnumKind:
		value := f.Enum().Values().ByNumber(v.Enum())
		if value == nil {
			return strconv.AppendInt(b, int64(v.Enum()), 10), nil
		}
		return appendQuoted(b, string(value.Name())), nil
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return appendMessage(b, v.Message())
	case protoreflect.BoolKind:
		return strconv.AppendBool(b, v.Bool()), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return strconv.AppendInt(b, v.Int(), 10), nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return strconv.AppendUint(b, v.Uint(), 10), nil
	case protoreflect.FloatKind:
		return appendFloat(b, v.Float(), float32(v.Float()))
	case protoreflect.DoubleKind:
		return appendFloat(b, v.Float(), v.Float())
	case protoreflect.BytesKind:
		return appendQuoted(b, base64.StdEncoding.EncodeToString(v.Bytes())), nil
	}
	return appendQuoted(b, v.String()), nil // a JSON number cannot hold 64 bits
}

// appendFloat appends the shortest text that identifies the float32 or float64.
func appendFloat(b []byte, f float64, sized any) ([]byte, error) {
	if math.IsNaN(f) {
		return appendQuoted(b, "NaN"), nil
	}
	if math.IsInf(f, 0) {
		return appendQuoted(b, map[bool]string{true: "-Infinity", false: "Infinity"}[f < 0]), nil
	}
	text, err := json.Marshal(sized)
	return append(b, text...), err
}

// appendString appends a text and escapes only what JSON requires.
func appendString(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("%.40q is not valid UTF-8", s)
	}
	b = append(b, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, '\\', 'b')
		case '\f':
			b = append(b, '\\', 'f')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
		}
	}
	return append(append(b, s[done:]...), '"'), nil
}

// appendQuoted appends a text that needs no escapes.
func appendQuoted(b []byte, s string) []byte { return append(append(append(b, '"'), s...), '"') }
