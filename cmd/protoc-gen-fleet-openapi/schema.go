package main

import (
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/getkin/kin-openapi/openapi3"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// direction says whether the JSON is a request or a response. A request may omit fields that are not required, and must not have
// unknown fields. A response has every field that is neither optional nor part of a oneof in the proto, and later versions may add
// fields.
type direction int

const (
	inRequest direction = iota
	inResponse
)

// schemaRef returns a reference to a schema of the document.
func schemaRef(name string) *openapi3.SchemaRef {
	return openapi3.NewSchemaRef("#/components/schemas/"+name, &openapi3.Schema{})
}

// ensureComponent adds the message to the document's schemas if they do not contain it, and returns a reference to it.
func (b *builder) ensureComponent(m *protogen.Message, d direction) *openapi3.SchemaRef {
	name := string(m.Desc.Name())
	if _, ok := b.doc.Components.Schemas[name]; !ok {
		b.doc.Components.Schemas[name] = &openapi3.SchemaRef{} // ends recursion
		b.doc.Components.Schemas[name] = b.object(m, d, nil).NewRef()
	}
	return schemaRef(name)
}

// object returns the schema of a message, without the omitted fields.
func (b *builder) object(m *protogen.Message, d direction, omitted []string) *openapi3.Schema {
	o := openapi3.NewObjectSchema()
	o.Description = commentText(m.Comments)
	if d == inRequest {
		no := false
		o.AdditionalProperties = openapi3.AdditionalProperties{Has: &no}
	}
	for _, f := range m.Fields {
		name := string(f.Desc.Name())
		if slices.Contains(omitted, name) {
			continue
		}
		o.WithPropertyRef(name, b.value(f, d))
		if (d == inRequest && isRequired(f)) || (d == inResponse && !f.Desc.HasOptionalKeyword() && f.Desc.ContainingOneof() == nil) {
			o.Required = append(o.Required, name)
		}
	}
	return o
}

// value returns the schema of a field, with its description and constraints.
func (b *builder) value(f *protogen.Field, d direction) *openapi3.SchemaRef {
	var s *openapi3.SchemaRef
	switch {
	case f.Desc.IsMap():
		o := openapi3.NewObjectSchema()
		o.AdditionalProperties = openapi3.AdditionalProperties{Schema: b.item(f.Message.Fields[1], d)}
		s = o.NewRef()
	case f.Desc.IsList():
		list := openapi3.NewArraySchema()
		list.Items = b.item(f, d)
		s = list.NewRef()
	default:
		s = b.item(f, d)
	}
	if s.Ref != "" { // OpenAPI 3.0 allows no other key next to a reference
		s = (&openapi3.Schema{AllOf: openapi3.SchemaRefs{s}}).NewRef()
	}
	s.Value.Description = commentText(f.Comments)
	if f.Enum != nil && !f.Desc.IsMap() {
		s.Value.Description += valueList(f.Enum)
	}
	if d == inResponse && b.mayBeNull(f) && f.Message.Desc.FullName() != "google.protobuf.Value" {
		s.Value.Nullable = true
		if s.Value.Type == nil { // nullable has no effect without a type
			s.Value.Type = &openapi3.Types{openapi3.TypeObject}
		}
	}
	if d == inRequest {
		addLimits(s.Value, f)
	}
	return s
}

// item returns the schema of one value of the field: of one item if the field is a list.
func (b *builder) item(f *protogen.Field, d direction) *openapi3.SchemaRef {
	switch f.Desc.Kind() {
	case protoreflect.BoolKind:
		return openapi3.NewBoolSchema().NewRef()
	case protoreflect.StringKind:
		return openapi3.NewStringSchema().NewRef()
	case protoreflect.BytesKind:
		return openapi3.NewBytesSchema().NewRef()
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return openapi3.NewFloat64Schema().NewRef()
	case protoreflect.EnumKind:
		s := openapi3.NewStringSchema()
		for _, v := range f.Enum.Values {
			if v.Desc.Number() != 0 { // the server never sends the zero value, and refuses it in requests
				s.Enum = append(s.Enum, string(v.Desc.Name()))
			}
		}
		return s.NewRef()
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return openapi3.NewStringSchema().WithFormat("int64").NewRef() // ProtoJSON quotes 64-bit numbers
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return b.message(f.Message, d)
	}
	return openapi3.NewInt32Schema().NewRef()
}

// message returns the schema of a message: the JSON form of a well-known type, or else a reference to a component.
func (b *builder) message(m *protogen.Message, d direction) *openapi3.SchemaRef {
	switch m.Desc.FullName() {
	case "google.protobuf.Timestamp":
		return openapi3.NewDateTimeSchema().NewRef()
	case "google.protobuf.Struct": // any object
		return openapi3.NewObjectSchema().WithAnyAdditionalProperties().NewRef()
	case "google.protobuf.Value": // any JSON including null: an empty schema in OpenAPI 3.0
		return openapi3.NewSchema().NewRef()
	}
	if isWrapper(m) {
		return b.item(m.Fields[0], d)
	}
	return b.ensureComponent(m, d)
}

// mayBeNull reports whether the field can be null in a response. This holds for wrappers and for messages with the
// option fleet.v1.nullable.
func (b *builder) mayBeNull(f *protogen.Field) bool {
	if f.Message == nil || f.Desc.IsList() || f.Desc.IsMap() {
		return false
	}
	return isWrapper(f.Message) || b.options.Bool(f.Desc, "fleet.v1.nullable")
}

// isWrapper reports whether the message has the JSON form of the value that it wraps.
func isWrapper(m *protogen.Message) bool {
	return m.Desc.ParentFile().Package() == "google.protobuf" && len(m.Fields) == 1 && m.Fields[0].Desc.Name() == "value"
}

func isRequired(f *protogen.Field) bool {
	behaviours, _ := proto.GetExtension(f.Desc.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED)
}

// addLimits adds the validation rules for strings, int32 numbers and lists to the field's schema.
func addLimits(s *openapi3.Schema, f *protogen.Field) {
	rules, _ := proto.GetExtension(f.Desc.Options(), validate.E_Field).(*validate.FieldRules)
	if r := rules.GetString(); r != nil {
		s.MinLength, s.Pattern = r.GetMinLen(), r.GetPattern()
		if r.HasMaxLen() {
			s.WithMaxLength(int64(r.GetMaxLen()))
		}
	}
	if r := rules.GetInt32(); r != nil {
		if r.HasGte() {
			s.WithMin(float64(r.GetGte()))
		}
		if r.HasLte() {
			s.WithMax(float64(r.GetLte()))
		}
	}
	if r := rules.GetRepeated(); r != nil {
		s.MinItems = r.GetMinItems()
		if r.HasMaxItems() {
			s.WithMaxItems(int64(r.GetMaxItems()))
		}
	}
}

// valueList describes the values of an enum as a Markdown list.
func valueList(e *protogen.Enum) string {
	var list strings.Builder
	for _, v := range e.Values {
		if v.Desc.Number() != 0 {
			list.WriteString("\n- `" + string(v.Desc.Name()) + "`: " + commentText(v.Comments))
		}
	}
	return "\n" + list.String()
}

// commentText returns a comment as one paragraph, without a leading "Required." or "Optional.", because the schema says that.
func commentText(c protogen.CommentSet) string {
	s := strings.Join(strings.Fields(string(c.Leading)), " ")
	s = strings.TrimPrefix(s, "Required. ")
	return strings.TrimPrefix(s, "Optional. ")
}
