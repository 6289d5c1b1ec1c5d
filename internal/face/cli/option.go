package cli

import (
	"iter"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

// The functions of this file read the options in the protos, which fleet/v1/options.proto declares.

// shownOption returns the option that says how to show a field to people, or nil if the field has none.
func shownOption(f protoreflect.FieldDescriptor) *fleetv1.Shown {
	s, _ := proto.GetExtension(f.Options(), fleetv1.E_Shown).(*fleetv1.Shown)
	return s
}

// itemsOf returns the items of a list of descriptors, such as the fields of a message.
func itemsOf[T any](list interface {
	Len() int
	Get(i int) T
},
) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i := range list.Len() {
			if !yield(list.Get(i)) {
				return
			}
		}
	}
}

// fieldWithRole returns the field of the message that has the role, or nil if no field has it.
func fieldWithRole(d protoreflect.MessageDescriptor, role fleetv1.Shown_Role) protoreflect.FieldDescriptor {
	for f := range itemsOf(d.Fields()) {
		if shownOption(f).GetRole() == role {
			return f
		}
	}
	return nil
}

// nameInSentence returns the field's name for use in sentences.
func nameInSentence(f protoreflect.FieldDescriptor) string {
	if label := shownOption(f).GetLabel(); label != "" {
		return label
	}
	return strings.ReplaceAll(string(f.Name()), "_", " ")
}

// labelOf returns the field's name with a capital first letter.
func labelOf(f protoreflect.FieldDescriptor) string { return upperFirst(nameInSentence(f)) }

// portionOf returns the option that says how a method returns a list in portions, or nil if it returns the whole list.
func portionOf(m protoreflect.MethodDescriptor) *fleetv1.Portion {
	p, _ := proto.GetExtension(m.Options(), fleetv1.E_Portion).(*fleetv1.Portion)
	return p
}

// valueOption returns the option that says what a value of an enum means, or nil if the value has none.
func valueOption(v protoreflect.EnumValueDescriptor) *fleetv1.Value {
	if v == nil {
		return nil
	}
	m, _ := proto.GetExtension(v.Options(), fleetv1.E_Value).(*fleetv1.Value)
	return m
}

// isLastMessage reports whether the message is the last one of its stream: one of its enum fields has a value with the option last.
func isLastMessage(m protoreflect.Message) bool {
	for f := range itemsOf(m.Descriptor().Fields()) {
		if f.Enum() != nil && !f.IsList() && valueOption(f.Enum().Values().ByNumber(m.Get(f).Enum())).GetLast() {
			return true
		}
	}
	return false
}

// colorOf returns the colour of an enum's value.
func colorOf(e protoreflect.Enum) color {
	return toneColors[valueOption(e.Descriptor().Values().ByNumber(e.Number())).GetTone()]
}

// fieldColor returns the colour of a field whose value is word. The colour belongs to the value of that name, in the
// field's enum or in one of the enums that the proto lists for a text field.
func fieldColor(f protoreflect.FieldDescriptor, word string) color {
	if f.Enum() != nil {
		return toneColors[valueOption(f.Enum().Values().ByName(protoreflect.Name(word))).GetTone()]
	}
	for _, name := range shownOption(f).GetValuesOf() {
		t, err := protoregistry.GlobalTypes.FindEnumByName(protoreflect.FullName(name))
		if err != nil {
			continue
		}
		if v := t.Descriptor().Values().ByName(protoreflect.Name(word)); v != nil {
			return toneColors[valueOption(v).GetTone()]
		}
	}
	return defaultColor
}
