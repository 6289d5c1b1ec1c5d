package main

import (
	"fmt"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/cmd/internal/option"
)

// schemas builds JSON Schemas of messages. They describe the JSON form of package wire.
type schemas struct {
	options option.Reader
	isInput bool    // the schemas are for arguments, which are checked, and not for results
	isBrief bool    // the schemas leave out the fields that only operators need
	defs    *object // the schemas of messages in other messages, by name
}

// schema returns the schema of a request or response. The message m itself is written inline. It refers to all other messages by
// their name in defs, so that recursion ends and shared messages appear once.
func (s schemas) schema(m *protogen.Message) (string, error) {
	const nested = false
	return s.message(m, nested).multiline()
}

// message returns the schema of a message. By the convention of the API, a message field of a response always has a
// value, but a message field of a nested message may be null.
func (s schemas) message(m *protogen.Message, nested bool) *object {
	properties, required := &object{}, []string{}
	for _, f := range m.Fields {
		behaviour, _ := proto.GetExtension(f.Desc.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		if s.isInput && slices.Contains(behaviour, annotations.FieldBehavior_OUTPUT_ONLY) || s.leavesOut(f.Desc) {
			continue
		}
		rules, _ := proto.GetExtension(f.Desc.Options(), validate.E_Field).(*validate.FieldRules)
		name := string(f.Desc.Name())
		property := s.property(f, rules)
		if _, ok := property.values["$ref"]; ok && nested && !s.isInput {
			property = (&object{}).set("anyOf", []*object{property, typeSchema("null")})
		}
		properties.set(name, property)
		switch {
		case !s.isInput && f.Oneof == nil: // a key of a result is always present, except for an optional field or a field of a oneof
			required = append(required, name)
		case s.isInput && (slices.Contains(behaviour, annotations.FieldBehavior_REQUIRED) || rules.GetRequired()):
			required = append(required, name)
		}
	}
	o := typeSchema("object").set("properties", properties)
	if len(required) > 0 {
		o.set("required", required)
	}
	if s.isInput && !s.isBrief { // a call may set the fields that a brief schema leaves out
		o.set("additionalProperties", false)
	}
	return o
}

// property returns the schema of a field with its description.
func (s schemas) property(f *protogen.Field, rules *validate.FieldRules) *object {
	o := s.field(f, rules)
	lines := []string{fieldDescription(f.Comments)}
	if f.Oneof != nil && !f.Oneof.Desc.IsSynthetic() {
		var names []string
		for _, other := range f.Oneof.Fields {
			names = append(names, string(other.Desc.Name()))
		}
		lines = append(lines, "Set at most one of "+strings.Join(names, ", ")+".")
	}
	if v, ok := s.options.Get(f.Desc, defaultOption); ok && s.isInput {
		if !s.isBrief {
			lines = append(lines, fmt.Sprintf("Default in a call of this tool: %d.", v.Int()))
		}
		o.set("default", v.Int())
	}
	if v, ok := s.options.Get(f.Desc, defaultTextOption); ok && s.isInput {
		lines = append(lines, fmt.Sprintf("Default in a call of this tool: %q.", v.String()))
		o.set("default", v.String())
	}
	if !s.isInput { // inputs omit them: the names say enough to choose one, and a model pays for every word
		lines = append(lines, enumDescriptions(f)...)
	}
	lines = slices.DeleteFunc(lines, func(l string) bool { return l == "" })
	if len(lines) > 0 {
		o.set("description", strings.Join(lines, "\n"))
	}
	return o
}

// enumDescriptions returns a line for each value of the field's enum that has a comment. For a map, this is the enum of its values.
func enumDescriptions(f *protogen.Field) []string {
	e := f.Enum
	if f.Desc.IsMap() {
		e = f.Message.Fields[1].Enum
	}
	if e == nil {
		return nil
	}
	var lines []string
	for _, v := range settableValues(e) {
		if text := commentText(v.Comments); text != "" {
			lines = append(lines, "- "+string(v.Desc.Name())+": "+text)
		}
	}
	return lines
}

// typeSchema returns a schema that allows one or several types.
func typeSchema(types ...string) *object {
	o := &object{}
	if len(types) == 1 {
		return o.set("type", types[0])
	}
	return o.set("type", types)
}

// settableValues returns the values of an enum without the zero value, which means that the field is not set.
func settableValues(e *protogen.Enum) []*protogen.EnumValue {
	return slices.DeleteFunc(slices.Clone(e.Values), func(v *protogen.EnumValue) bool { return v.Desc.Number() == 0 })
}

// field returns the schema of a field without its description.
func (s schemas) field(f *protogen.Field, rules *validate.FieldRules) *object {
	switch {
	case f.Desc.IsMap():
		o := typeSchema("object").set("additionalProperties", s.value(f.Message.Fields[1], rules.GetMap().GetValues()))
		return s.addRules(o, rules)
	case f.Desc.IsList():
		return s.addRules(typeSchema("array").set("items", s.value(f, rules.GetRepeated().GetItems())), rules)
	}
	return s.value(f, rules)
}

// value returns the schema of one value of the field: of one item if the field is a list.
func (s schemas) value(f *protogen.Field, rules *validate.FieldRules) *object {
	switch f.Desc.Kind() {
	case protoreflect.BoolKind:
		return typeSchema("boolean")
	case protoreflect.StringKind:
		return s.addRules(typeSchema("string"), rules)
	case protoreflect.BytesKind:
		return typeSchema("string").set("contentEncoding", "base64")
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return s.addRules(typeSchema("number"), rules)
	case protoreflect.EnumKind:
		var names []string
		for _, v := range settableValues(f.Enum) {
			names = append(names, string(v.Desc.Name()))
		}
		return typeSchema("string").set("enum", names)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if s.isInput { // ProtoJSON reads numbers and texts, and writes texts, because a double cannot hold every 64-bit integer
			return s.addRules(typeSchema("integer", "string"), rules)
		}
		return typeSchema("string")
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return s.reference(f.Message, rules)
	}
	return s.addRules(typeSchema("integer"), rules)
}

// reference returns the schema of a field whose type is a message. It adds the message to defs if it is not there yet.
func (s schemas) reference(m *protogen.Message, rules *validate.FieldRules) *object {
	if o := s.wellKnownSchema(m); o != nil {
		return s.addRules(o, rules)
	}
	name := strings.TrimPrefix(string(m.Desc.FullName()), string(m.Desc.ParentFile().Package())+".")
	if _, ok := s.defs.values[name]; !ok {
		s.defs.set(name, nil) // ends recursion and reserves the place
		const nested = true
		o := s.message(m, nested)
		if text := commentText(m.Comments); text != "" {
			o.set("description", text)
		}
		s.defs.set(name, o)
	}
	return (&object{}).set("$ref", "#/$defs/"+name)
}

// wellKnownSchema returns the schema of a message with a special JSON form; nil for any other message. In a result, such a
// message is null if it is not set.
func (s schemas) wellKnownSchema(m *protogen.Message) *object {
	nullable := func(t string) *object {
		if s.isInput {
			return typeSchema(t)
		}
		return typeSchema(t, "null")
	}
	switch m.Desc.FullName() {
	case "google.protobuf.Timestamp":
		return nullable("string").set("format", "date-time")
	case "google.protobuf.StringValue":
		return nullable("string")
	case "google.protobuf.Struct":
		return nullable("object")
	case "google.protobuf.Value":
		return &object{}
	}
	return nil
}

// leavesOut reports whether the schema omits the field.
func (s schemas) leavesOut(d protoreflect.Descriptor) bool {
	return s.isBrief && s.options.Bool(d, operatorFieldOption)
}

// hasBriefInput reports whether the method's tool has a brief input schema: whether its request has fields that only operators need.
func (g generator) hasBriefInput(m *protogen.Method) bool {
	for _, f := range m.Input.Fields {
		if g.options.Bool(f.Desc, operatorFieldOption) {
			return true
		}
	}
	return false
}
