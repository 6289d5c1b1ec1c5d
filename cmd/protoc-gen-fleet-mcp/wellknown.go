package main

import "google.golang.org/protobuf/compiler/protogen"

// wellKnown returns the schema of a message with a special JSON form; nil for any other message. In a result, such a
// message is null if it is not set.
func (s schemas) wellKnown(m *protogen.Message) *object {
	nullable := func(t string) *object {
		if s.input {
			return typed(t)
		}
		return typed(t, "null")
	}
	switch m.Desc.FullName() {
	case "google.protobuf.Timestamp":
		return nullable("string").set("format", "date-time")
	case "google.protobuf.Duration":
		return nullable("string").set("pattern", `^-?[0-9]+(\.[0-9]{1,9})?s$`)
	case "google.protobuf.FieldMask", "google.protobuf.StringValue", "google.protobuf.Int64Value", "google.protobuf.UInt64Value":
		return nullable("string")
	case "google.protobuf.BytesValue":
		return nullable("string").set("contentEncoding", "base64")
	case "google.protobuf.BoolValue":
		return nullable("boolean")
	case "google.protobuf.Int32Value", "google.protobuf.UInt32Value":
		return nullable("integer")
	case "google.protobuf.FloatValue", "google.protobuf.DoubleValue":
		return nullable("number")
	case "google.protobuf.Struct", "google.protobuf.Empty":
		return nullable("object")
	case "google.protobuf.ListValue":
		return nullable("array")
	case "google.protobuf.Any":
		return nullable("object").set("required", []string{"@type"})
	case "google.protobuf.Value":
		return &object{}
	}
	return nil
}
