package main

import (
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// form names what package wire has for the values of one type: a function that appends a value, and a method of Reader
// that reads a value. A name is empty if package wire has no such function, because no field of the API needs it yet.
type form struct{ append, read string }

var scalars = map[protoreflect.Kind]form{
	protoreflect.StringKind:  {"AppendString", "String"},
	protoreflect.BoolKind:    {"AppendBool", "Bool"},
	protoreflect.Int32Kind:   {"AppendInt", "Int"},
	protoreflect.Int64Kind:   {"AppendInt64", "Int64"},
	protoreflect.DoubleKind:  {"AppendFloat", "Float"},
	protoreflect.MessageKind: {"AppendMessage", ""},
	protoreflect.EnumKind:    {"AppendEnum", "Enum"},
	protoreflect.BytesKind:   {"", "Bytes"},
}

var wellKnown = map[protoreflect.FullName]form{
	"google.protobuf.StringValue": {"AppendText", ""},
	"google.protobuf.Timestamp":   {"AppendTime", "Time"},
	"google.protobuf.Struct":      {"AppendStruct", "Struct"},
	"google.protobuf.Value":       {"AppendAny", ""},
}

// formOf returns the form of a field's value, or of each item if the field is a list or a map.
func formOf(f *protogen.Field) form {
	if f.Desc.IsMap() {
		f = f.Message.Fields[1]
	}
	if f.Message != nil {
		if own, ok := wellKnown[f.Message.Desc.FullName()]; ok {
			return own
		}
		if f.Message.Desc.ParentFile().Package() == "google.protobuf" {
			return form{}
		}
	}
	return scalars[f.Desc.Kind()]
}

// appendCall returns the call that appends the field's value, as source code. key is an expression that appends the
// key.
func (g *generator) appendCall(f *protogen.Field, key string) ([]any, error) {
	name := formOf(f).append
	several := f.Desc.IsList() || f.Desc.IsMap()
	isEnum := f.Enum != nil || f.Desc.IsMap() && f.Message.Fields[1].Enum != nil
	if name == "" || several && isEnum || f.Desc.IsMap() && f.Desc.MapKey().Kind() != protoreflect.StringKind || chosen(f) && f.Message == nil {
		return nil, unsupported(f)
	}
	value := value(f)
	if optional(f) && f.Message == nil {
		value = "*" + value
	}
	each := wirePackage.Ident(name)
	switch {
	case f.Desc.IsMap():
		return []any{wirePackage.Ident("AppendMap"), "(", key, ", ", value, ", ", each, ")"}, nil
	case f.Desc.IsList():
		return []any{wirePackage.Ident("AppendList"), "(", key, ", ", value, ", ", each, ")"}, nil
	case isEnum:
		return []any{each, "(", key, ", ", value, ", ", g.QualifiedGoIdent(f.Enum.GoIdent), "_name)"}, nil
	}
	return []any{each, "(", key, ", ", value, ")"}, nil
}

// readCall returns the call that reads the field's value, as source code.
func (g *generator) readCall(f *protogen.Field) ([]any, error) {
	if f.Desc.IsMap() && f.Desc.MapKey().Kind() == protoreflect.StringKind && f.Desc.MapValue().Kind() == protoreflect.StringKind {
		return []any{"r.Texts(&m.", f.GoName, ")"}, nil
	}
	name := formOf(f).read
	if f.Desc.IsList() && sent(f.Message) {
		return []any{wirePackage.Ident("List"), "(r, &m.", f.GoName, ", ", wirePackage.Ident("Message"), "[", f.Message.GoIdent, "])"}, nil
	}
	wrapped := f.Desc.IsList() || optional(f)
	if name == "" || f.Desc.IsMap() || wrapped && f.Message != nil || optional(f) && f.Enum != nil || chosen(f) {
		return nil, unsupported(f)
	}
	to := "&m." + f.GoName
	switch method := []any{"(*", wirePackage.Ident("Reader"), ").", name}; {
	case f.Desc.IsList() && f.Enum != nil:
		return []any{
			wirePackage.Ident("List"), "(r, ", to, ", func(r *", wirePackage.Ident("Reader"), ", to *", f.Enum.GoIdent, ") { ",
			wirePackage.Ident(name), "(r, to, ", g.QualifiedGoIdent(f.Enum.GoIdent), "_value) })",
		}, nil
	case f.Desc.IsList():
		return append(append([]any{wirePackage.Ident("List"), "(r, ", to, ", "}, method...), ")"), nil
	case optional(f):
		return append(append([]any{wirePackage.Ident("Optional"), "(r, ", to, ", "}, method...), ")"), nil
	case f.Enum != nil:
		return []any{wirePackage.Ident(name), "(r, ", to, ", ", g.QualifiedGoIdent(f.Enum.GoIdent), "_value)"}, nil
	}
	return []any{"r.", name, "(", to, ")"}, nil
}

// sent reports whether the message is one of the API, which Reader reads field by field.
func sent(m *protogen.Message) bool {
	return m != nil && !m.Desc.IsMapEntry() && m.Desc.ParentFile().Package() != "google.protobuf"
}

// chosen reports whether the field is one of a oneof.
func chosen(f *protogen.Field) bool { return f.Oneof != nil && !f.Oneof.Desc.IsSynthetic() }

// value returns an expression for the field's value in the message m.
func value(f *protogen.Field) string {
	if chosen(f) {
		return "m.Get" + f.GoName + "()"
	}
	return "m." + f.GoName
}

func unsupported(f *protogen.Field) error {
	return fmt.Errorf("package wire has no JSON form for %s: add the form to package wire and to this plugin", describe(f))
}

func describe(f *protogen.Field) string {
	kind := f.Desc.Kind().String()
	if f.Message != nil {
		kind = string(f.Message.Desc.FullName())
	}
	switch {
	case f.Desc.IsMap():
		return "a map of " + f.Message.Fields[1].Desc.Kind().String()
	case f.Desc.IsList():
		return "a list of " + kind
	case optional(f):
		return "an optional " + kind
	case f.Oneof != nil:
		return "a oneof"
	}
	return "a field of type " + kind
}
