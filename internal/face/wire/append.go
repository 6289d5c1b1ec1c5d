package wire

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The functions of this file append values to JSON. The generated AppendJSON methods call them. They return no errors:
// a value that JSON cannot hold is appended as the byte unwritable, which Marshal finds.

// unwritable never occurs in UTF-8.
const unwritable = 0xff

// End closes the object whose members were appended to b since begin, each with a leading comma.
func End(b []byte, begin int) []byte {
	if len(b) == begin {
		return append(b, "{}"...)
	}
	b[begin] = '{'
	return append(b, '}')
}

// AppendString appends a text and escapes only what JSON requires.
func AppendString(b []byte, s string) []byte {
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
	return append(append(b, s[done:]...), '"')
}

// AppendBool appends true or false.
func AppendBool(b []byte, v bool) []byte { return strconv.AppendBool(b, v) }

// AppendInt appends a number of 32 bits.
func AppendInt(b []byte, n int32) []byte { return strconv.AppendInt(b, int64(n), 10) }

// AppendInt64 appends a number in quotes, since many JSON parsers read numbers as float64, which cannot hold 64 bits.
func AppendInt64(b []byte, n int64) []byte {
	return append(strconv.AppendInt(append(b, '"'), n, 10), '"')
}

// AppendFloat appends the shortest decimal number that parses as n. It appends NaN and infinities as strings.
func AppendFloat(b []byte, n float64) []byte {
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

// AppendEnum appends the name of an enum value, or its number if it has no name.
func AppendEnum[E ~int32](b []byte, value E, names map[int32]string) []byte {
	if name, ok := names[int32(value)]; ok {
		return append(append(append(b, '"'), name...), '"')
	}
	return AppendInt(b, int32(value))
}

// AppendList appends a list. It calls the function each to append an item.
func AppendList[T any](b []byte, list []T, each func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = each(b, item)
	}
	return append(b, ']')
}

// AppendMap appends an object with sorted keys. It calls the function each to append a value.
func AppendMap[T any](b []byte, m map[string]T, each func([]byte, T) []byte) []byte {
	begin := len(b)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b = append(AppendString(append(b, ','), key), ':')
		b = each(b, m[key])
	}
	return End(b, begin)
}

// AppendMessage appends a message.
func AppendMessage[M interface{ AppendJSON(b []byte) []byte }](b []byte, m M) []byte {
	return m.AppendJSON(b)
}

// AppendText appends a text that can be null.
func AppendText(b []byte, s *wrapperspb.StringValue) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return AppendString(b, s.GetValue())
}

// AppendTime appends a time of the years 1 to 9999 in the format of RFC 3339, with 0, 3, 6 or 9 fractional digits. It
// appends null if t is nil, and unwritable if t is invalid.
func AppendTime(b []byte, t *timestamppb.Timestamp) []byte {
	switch {
	case t == nil:
		return append(b, "null"...)
	case !t.IsValid():
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

// AppendStruct appends any JSON object. It appends null if s is nil.
func AppendStruct(b []byte, s *structpb.Struct) []byte {
	if s == nil {
		return append(b, "null"...)
	}
	return AppendMap(b, s.GetFields(), appendAny)
}

// AppendAny appends any JSON value. It appends null if v is nil.
func AppendAny(b []byte, v *structpb.Value) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	return appendAny(b, v)
}

// appendAny appends a value, which must have a kind.
func appendAny(b []byte, v *structpb.Value) []byte {
	switch kind := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		return append(b, "null"...)
	case *structpb.Value_BoolValue:
		return AppendBool(b, kind.BoolValue)
	case *structpb.Value_NumberValue:
		if !math.IsNaN(kind.NumberValue) && !math.IsInf(kind.NumberValue, 0) {
			return AppendFloat(b, kind.NumberValue)
		}
	case *structpb.Value_StringValue:
		return AppendString(b, kind.StringValue)
	case *structpb.Value_StructValue:
		return AppendMap(b, kind.StructValue.GetFields(), appendAny)
	case *structpb.Value_ListValue:
		return AppendList(b, kind.ListValue.GetValues(), appendAny)
	}
	return append(b, unwritable)
}
