package wire

import (
	"encoding/base64"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// fieldAppender appends a field of a message.
type fieldAppender struct {
	descriptor protoreflect.FieldDescriptor
	key        string // a comma, the quoted name of the field, and a colon
	optional   bool   // the field is left out if it is not set
	append     func([]byte, protoreflect.Value) []byte
}

// fieldsByMessage caches what fieldsOf returns. It maps a protoreflect.MessageDescriptor to a []fieldAppender.
var fieldsByMessage sync.Map

// fieldsOf returns the appenders of a message's fields, in the order of the proto.
func fieldsOf(d protoreflect.MessageDescriptor) []fieldAppender {
	if cached, ok := fieldsByMessage.Load(d); ok {
		return cached.([]fieldAppender) //nolint:forcetypeassert // see fieldsByMessage
	}
	fields := make([]fieldAppender, d.Fields().Len())
	for i := range fields {
		f := d.Fields().Get(i)
		fields[i] = fieldAppender{
			descriptor: f, key: "," + strconv.Quote(string(f.Name())) + ":",
			optional: f.HasOptionalKeyword() || f.ContainingOneof() != nil, append: appenderOf(f),
		}
	}
	fieldsByMessage.Store(d, fields)
	return fields
}

// appendMessage appends a message of the API, field by field.
func appendMessage(b []byte, m protoreflect.Message) []byte {
	begin := len(b)
	for _, f := range fieldsOf(m.Descriptor()) {
		if !f.optional || m.Has(f.descriptor) {
			b = f.append(append(b, f.key...), m.Get(f.descriptor))
		}
	}
	if len(b) == begin {
		return append(b, "{}"...)
	}
	b[begin] = '{' // in place of the first comma
	return append(b, '}')
}

// appenderOf returns the function that appends the values of a field.
func appenderOf(f protoreflect.FieldDescriptor) func([]byte, protoreflect.Value) []byte {
	switch {
	case f.IsMap():
		each := singleAppenderOf(f.MapValue())
		return func(b []byte, v protoreflect.Value) []byte {
			values := make(map[string]protoreflect.Value, v.Map().Len())
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				values[k.String()] = v
				return true
			})
			return appendObject(b, values, each)
		}
	case f.IsList():
		each := singleAppenderOf(f)
		return func(b []byte, v protoreflect.Value) []byte {
			b = append(b, '[')
			for i, list := 0, v.List(); i < list.Len(); i++ {
				if i > 0 {
					b = append(b, ',')
				}
				b = each(b, list.Get(i))
			}
			return append(b, ']')
		}
	}
	return singleAppenderOf(f)
}

// singleAppenderOf returns the function that appends one value of a field.
func singleAppenderOf(f protoreflect.FieldDescriptor) func([]byte, protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.StringKind:
		return func(b []byte, v protoreflect.Value) []byte { return AppendString(b, v.String()) }
	case protoreflect.BytesKind:
		return func(b []byte, v protoreflect.Value) []byte {
			return append(base64.StdEncoding.AppendEncode(append(b, '"'), v.Bytes()), '"')
		}
	case protoreflect.BoolKind:
		return func(b []byte, v protoreflect.Value) []byte { return strconv.AppendBool(b, v.Bool()) }
	case protoreflect.Int32Kind:
		return func(b []byte, v protoreflect.Value) []byte { return strconv.AppendInt(b, v.Int(), 10) }
	case protoreflect.Int64Kind:
		return func(b []byte, v protoreflect.Value) []byte { return appendInt64(b, v.Int()) }
	case protoreflect.DoubleKind:
		return func(b []byte, v protoreflect.Value) []byte { return appendFloat(b, v.Float()) }
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return func(b []byte, v protoreflect.Value) []byte { return appendEnum(b, values, v.Enum()) }
	case protoreflect.MessageKind:
		return func(b []byte, v protoreflect.Value) []byte { return appendAnyMessage(b, v.Message()) }
	default:
		return func(b []byte, _ protoreflect.Value) []byte { return append(b, unwritable) }
	}
}

// appendAnyMessage appends one of the API's or of Google's messages. It appends null if the message is not set.
func appendAnyMessage(b []byte, m protoreflect.Message) []byte {
	if !m.IsValid() {
		return append(b, "null"...)
	}
	switch m := m.Interface().(type) {
	case *wrapperspb.StringValue:
		return AppendString(b, m.GetValue())
	case *timestamppb.Timestamp:
		return appendTime(b, m)
	case *structpb.Struct:
		return appendObject(b, m.GetFields(), appendValue)
	case *structpb.Value:
		return appendValue(b, m)
	}
	if isForeign(m.Descriptor()) {
		data, err := marshalForeign(m.Interface())
		if err != nil {
			return append(b, unwritable)
		}
		return append(b, data...)
	}
	return appendMessage(b, m)
}

// isForeign reports whether the message type is one of Google's, such as google.protobuf.Timestamp, and not one of the API's.
func isForeign(d protoreflect.MessageDescriptor) bool {
	return strings.HasPrefix(string(d.FullName()), "google.")
}
