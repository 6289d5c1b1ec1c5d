// Package option reads Fleet's own options, which fleet/v1/options.proto defines, for Fleet's protoc plugins. It uses descriptors
// instead of the generated Go package of the options, so that the plugins can be built before any code is generated.
package option

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Reader reads options through the descriptors of a plugin's request.
type Reader struct{ types *protoregistry.Types }

// NewReader returns a Reader of the options that the files define.
func NewReader(files []*protogen.File) Reader {
	r := Reader{types: &protoregistry.Types{}}
	for _, f := range files {
		for _, x := range f.Extensions {
			// A second option with the same name or number cannot exist, because protoc refuses it.
			_ = r.types.RegisterExtension(dynamicpb.NewExtensionType(x.Desc))
		}
	}
	return r
}

// Get returns the value that the option with the name has for d. The second result is false if the option is not set or not defined.
func (r Reader) Get(d protoreflect.Descriptor, name protoreflect.FullName) (protoreflect.Value, bool) {
	x, err := r.types.FindExtensionByName(name)
	if err != nil {
		return protoreflect.Value{}, false
	}
	raw, err := proto.Marshal(d.Options())
	if err != nil {
		return protoreflect.Value{}, false
	}
	m := d.Options().ProtoReflect().New()
	if err := (proto.UnmarshalOptions{Resolver: r.types}).Unmarshal(raw, m.Interface()); err != nil {
		return protoreflect.Value{}, false
	}
	if !m.Has(x.TypeDescriptor()) {
		return protoreflect.Value{}, false
	}
	return m.Get(x.TypeDescriptor()), true
}

// Bool reports whether a boolean option is set to true.
func (r Reader) Bool(d protoreflect.Descriptor, name protoreflect.FullName) bool {
	v, ok := r.Get(d, name)
	return ok && v.Bool()
}

// Text returns the value of a field of an option. The option must be a message, and the field a string or an enum. For an
// enum, Text returns the name of the value. It returns "" if the option or the field is not set.
func (r Reader) Text(d protoreflect.Descriptor, name protoreflect.FullName, field protoreflect.Name) string {
	v, ok := r.Get(d, name)
	if !ok {
		return ""
	}
	return TextIn(v.Message(), field)
}

// TextIn is like Text, for an option that Get has returned. It panics if the option does not define the field.
func TextIn(option protoreflect.Message, field protoreflect.Name) string {
	f := option.Descriptor().Fields().ByName(field)
	if f.Enum() == nil {
		return option.Get(f).String()
	}
	if v := f.Enum().Values().ByNumber(option.Get(f).Enum()); v != nil && v.Number() != 0 {
		return string(v.Name())
	}
	return ""
}

// LastIsResult is the name of the option that says that the last message of a stream is the method's result.
const LastIsResult = protoreflect.FullName("fleet.v1.last_is_result")

// LastMarker returns the enum field that marks the last message of a stream, and the value that it has in the last message. m
// is the type of the stream's messages. Both results are nil if there is no such field.
func (r Reader) LastMarker(m *protogen.Message) (*protogen.Field, *protogen.EnumValue) {
	for _, f := range m.Fields {
		if f.Enum == nil || f.Desc.IsList() {
			continue
		}
		for _, v := range f.Enum.Values {
			if o, ok := r.Get(v.Desc, "fleet.v1.value"); ok && o.Message().Get(o.Message().Descriptor().Fields().ByName("last")).Bool() {
				return f, v
			}
		}
	}
	return nil, nil
}

// FieldWithRole returns the first field of m to which the option fleet.v1.shown gives the role, or nil.
func (r Reader) FieldWithRole(m *protogen.Message, role string) *protogen.Field {
	for _, f := range m.Fields {
		if r.Text(f.Desc, "fleet.v1.shown", "role") == role {
			return f
		}
	}
	return nil
}
