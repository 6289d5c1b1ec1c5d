package rpc

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"fleet/internal/fleet"
)

// textOf returns s as valid UTF-8, which protobuf requires. Agents can write invalid UTF-8, and one such text would
// make the whole response fail.
func textOf(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Enum values of the API have the names of the core's values, so the tables in the generated code, such as Agent_Status_value, convert
// them.

// nameIn returns the name of an enum value in a request; "" if the request does not set the enum.
func nameIn(e protoreflect.Enum) string {
	if e.Number() == 0 {
		return ""
	}
	return fmt.Sprint(e)
}

// timeOf returns t without fractions of a second, since all times in the API are in whole seconds. It returns nil for the zero time.
func timeOf(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return &timestamppb.Timestamp{Seconds: t.Unix()}
}

// listOf returns the converted items of a list.
func listOf[From, To any](all []From, convert func(From) To) []To {
	out := make([]To, len(all))
	for i, item := range all {
		out[i] = convert(item)
	}
	return out
}

// copyFields copies the fields that both messages have from the second message to the first, by name, and returns the first.
// Fields with the same name must have the same type.
func copyFields[To proto.Message](to To, from proto.Message) To {
	target := to.ProtoReflect()
	from.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f := target.Descriptor().Fields().ByName(f.Name()); f != nil {
			target.Set(f, v)
		}
		return true
	})
	return to
}

// optional returns a pointer to v, or nil if v is the zero value. An optional field that is nil is absent in the message.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// int32Of returns n, or the nearest int32 if n is out of range.
func int32Of(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) } //nolint:gosec // clamped

func intIn(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

// timeIn returns the time in a request's field, or the zero time if at is nil. It fails if the time is out of range.
func timeIn(field string, at *timestamppb.Timestamp) (time.Time, error) {
	if at == nil {
		return time.Time{}, nil
	}
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fleet.InvalidField(field, "%s is not a time from year 1 to 9999", field).WithCause(err)
	}
	return at.AsTime(), nil
}

// valueOf converts a JSON value. It returns nil if raw is empty or not JSON.
func valueOf(raw json.RawMessage) *structpb.Value {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return nil
	}
	out, _ := structpb.NewValue(v) // cannot fail: JSON's values are all allowed
	return out
}
