package cli

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fleet/internal/face/wire"
)

// valueText formats the value of a field: a list as one text, a time as its age, and a structure as JSON.
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
		return s.age(timeOf(v)) + " ago"
	}
	return scalarText(f, v)
}

// isZero reports whether the value is the number 0.
func isZero(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	return !f.IsList() && !f.IsMap() && isNumber(f) && (v.String() == "0" || v.String() == "-0")
}

func isTime(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp"
}

// timeOf returns the value of a field for which isTime is true.
func timeOf(v protoreflect.Value) *timestamppb.Timestamp {
	t, _ := v.Message().Interface().(*timestamppb.Timestamp)
	return t
}

func isNumber(f protoreflect.FieldDescriptor) bool {
	switch f.Kind() {
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	}
	return true
}

// isScalar reports whether a value of the field is a single word or text.
func isScalar(f protoreflect.FieldDescriptor) bool {
	if f.IsList() || f.IsMap() {
		return false
	}
	if f.Message() == nil {
		return true
	}
	form := messageForm(f.Message())
	return form != asObject && form != asJSON
}

// scalarText formats one value, independent of the current time.
func scalarText(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		if v.Bool() {
			return "yes"
		}
		return "no"
	case protoreflect.EnumKind:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil && value.Number() != 0 {
			return string(value.Name())
		}
		return ""
	case protoreflect.StringKind:
		return v.String()
	case protoreflect.BytesKind:
		return size(len(v.Bytes()))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			return lasting(d.AsDuration())
		}
		return jsonText(v.Message().Interface())
	}
	n, err := strconv.ParseFloat(v.String(), 64)
	if err != nil {
		return v.String()
	}
	if text, ok := withUnit(n, shownBy(f).GetUnit()); ok {
		return text
	}
	if f.Kind() == protoreflect.DoubleKind || f.Kind() == protoreflect.FloatKind {
		return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64)
	}
	return v.String()
}

// jsonText formats a message as JSON in one line; a text without its quotes.
func jsonText(m proto.Message) string {
	data, err := wire.Marshal(m)
	if err != nil {
		return ""
	}
	var text string
	if json.Unmarshal(data, &text) == nil && (len(data) == 0 || data[0] == '"') {
		return text
	}
	return string(data)
}
