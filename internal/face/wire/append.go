package wire

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The functions of this file append values to JSON. They return no errors: they append the byte unwritable in place of a value
// that JSON cannot hold. Marshal finds this byte and returns the error.

// unwritable is a byte that never occurs in UTF-8.
const unwritable = 0xff

// AppendString appends s as a JSON string and escapes only what JSON requires. It does not check that s is UTF-8.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
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
	return append(append(b, s[start:]...), '"')
}

// appendInt64 appends a number in quotes, since many JSON parsers read numbers as float64, which cannot hold 64 bits.
func appendInt64(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, '"'), n, 10), '"')
}

// appendFloat appends the shortest decimal number that parses as n. It appends NaN and infinities as strings, as protojson does.
func appendFloat(b []byte, n float64) []byte {
	switch {
	case math.IsNaN(n):
		return append(b, `"NaN"`...)
	case math.IsInf(n, 1):
		return append(b, `"Infinity"`...)
	case math.IsInf(n, -1):
		return append(b, `"-Infinity"`...)
	}
	form := byte('f')
	if abs := math.Abs(n); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		form = 'e'
	}
	b = strconv.AppendFloat(b, n, form, -1, 64)
	if end := len(b); form == 'e' && string(b[end-4:end-1]) == "e-0" { // 1e-09 is written as 1e-9
		b = append(b[:end-2], b[end-1])
	}
	return b
}

// appendEnum appends the name of an enum value, or its number if it has no name.
func appendEnum(b []byte, values protoreflect.EnumValueDescriptors, n protoreflect.EnumNumber) []byte {
	if v := values.ByNumber(n); v != nil {
		return append(append(append(b, '"'), v.Name()...), '"')
	}
	return strconv.AppendInt(b, int64(n), 10)
}

// appendObject appends an object with sorted keys. It calls the function each to append a value.
func appendObject[T any](b []byte, m map[string]T, each func([]byte, T) []byte) []byte {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(append(AppendString(b, key), ':'), m[key])
	}
	return append(b, '}')
}

// appendList appends a list. It calls the function each to append an item.
func appendList[T any](b []byte, list []T, each func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, item)
	}
	return append(b, ']')
}

// appendTime appends a time of the years 1 to 9999 in the format of RFC 3339, with 0, 3, 6 or 9 fractional digits. It
// appends unwritable for any other time.
func appendTime(b []byte, t *timestamppb.Timestamp) []byte {
	if !t.IsValid() {
		return append(b, unwritable)
	}
	b = time.Unix(t.GetSeconds(), 0).UTC().AppendFormat(append(b, '"'), time.RFC3339)
	if fraction := int(t.GetNanos()); fraction > 0 {
		b[len(b)-1] = '.' // instead of the Z
		digits := 9
		for digits > 3 && fraction%1000 == 0 {
			digits, fraction = digits-3, fraction/1000
		}
		text := strconv.Itoa(fraction)
		b = append(b, "000000000"[:digits-len(text)]...)
		b = append(append(b, text...), 'Z')
	}
	return append(b, '"')
}

// appendValue appends any JSON value. It appends unwritable for a value without a kind, and for NaN and infinities.
func appendValue(b []byte, v *structpb.Value) []byte {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return append(b, "null"...)
	case *structpb.Value_BoolValue:
		return strconv.AppendBool(b, kind.BoolValue)
	case *structpb.Value_NumberValue:
		if !math.IsNaN(kind.NumberValue) && !math.IsInf(kind.NumberValue, 0) {
			return appendFloat(b, kind.NumberValue)
		}
	case *structpb.Value_StringValue:
		return AppendString(b, kind.StringValue)
	case *structpb.Value_StructValue:
		return appendObject(b, kind.StructValue.GetFields(), appendValue)
	case *structpb.Value_ListValue:
		return appendList(b, kind.ListValue.GetValues(), appendValue)
	}
	return append(b, unwritable)
}
