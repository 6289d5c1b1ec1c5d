package cli

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"fleet/internal/face/wire"
)

// valueText formats the value of a field: a list as one text, a time as its age, and a structure as JSON. It returns ""
// for a map, a list of messages and a message that is not set.
func (s *session) valueText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.IsList() && f.Message() == nil:
		var parts []string
		for i := range v.List().Len() {
			parts = append(parts, scalarText(f, v.List().Get(i)))
		}
		return strings.Join(parts, ", ")
	case f.IsList(), f.IsMap(), f.Message() != nil && !v.Message().IsValid():
		return ""
	case isTime(f):
		return s.ageText(timeOf(v)) + " ago"
	}
	return scalarText(f, v)
}

// isZero reports whether the value is the number 0.
func isZero(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	return isNumber(f) && (v.String() == "0" || v.String() == "-0")
}

// isNumber reports whether the field is a single number of one of the types that derived commands format: int32 and double.
func isNumber(f protoreflect.FieldDescriptor) bool {
	return !f.IsList() && (f.Kind() == protoreflect.Int32Kind || f.Kind() == protoreflect.DoubleKind)
}

func isTime(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp"
}

// timeOf returns the value of a field for which isTime is true.
func timeOf(v protoreflect.Value) *timestamppb.Timestamp {
	t, _ := v.Message().Interface().(*timestamppb.Timestamp)
	return t
}

// isScalar reports whether the field has a single value that is not a structure: a text, number, boolean, enum value or time. A
// StringValue is a text that can be absent.
func isScalar(f protoreflect.FieldDescriptor) bool {
	return !f.IsList() && !f.IsMap() && (f.Message() == nil || isTime(f) || f.Message().FullName() == "google.protobuf.StringValue")
}

// scalarText formats one value, independent of the current time.
func scalarText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case f.Kind() == protoreflect.BoolKind && v.Bool():
		return "yes"
	case f.Kind() == protoreflect.BoolKind:
		return "no"
	case f.Enum() != nil:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil && value.Number() != 0 {
			return string(value.Name())
		}
		return ""
	case f.Message() != nil:
		return jsonText(v.Message().Interface())
	case isNumber(f):
		if n, err := strconv.ParseFloat(v.String(), 64); err == nil {
			return numberText(n, shownOption(f).GetUnit())
		}
	}
	return v.String()
}

// jsonText formats a message as JSON in one line. It returns the text of a StringValue without quotes.
func jsonText(m proto.Message) string {
	if text, ok := m.(*wrapperspb.StringValue); ok {
		return text.GetValue()
	}
	data, err := wire.Marshal(m)
	if err != nil {
		return ""
	}
	return string(data)
}
