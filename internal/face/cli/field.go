package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// field describes a field of a request, and how its value is given on the command line.
type field struct {
	desc     protoreflect.FieldDescriptor
	about    string // the field's description in the proto
	required bool
	notation notation
	// limit is the maximum size of a text from a file or standard input, in bytes. It is 0 if the value must be given directly, for
	// example a name or an id.
	limit int
}

// notation is how a value is written on the command line.
type notation int

const (
	asText   notation = iota // a text, or several separated by commas if the field is a list
	asNumber                 // a whole number
	asBool                   // true, false, or nothing, which means true
	asEnum                   // one of the values of an enum
	asObject                 // a JSON object, or KEY=VALUE pairs
)

// fieldsOf returns the fields of a method's request, except those that only the server sets. It panics if a field's
// type has no notation on the command line, which is a bug.
func fieldsOf(m *method, texts openAPIDocument) (list []*field) {
	for d := range itemsOf(m.desc.Input().Fields()) {
		behaviours := behavioursOf(d)
		if slices.Contains(behaviours, annotations.FieldBehavior_OUTPUT_ONLY) {
			continue
		}
		f := &field{desc: d, about: texts.fieldDescription(m.desc, d), notation: notationOf(d)}
		f.required = slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED)
		f.limit = limitOf(d, f.notation)
		list = append(list, f)
	}
	return list
}

// notationOf returns the notation for the type of the field, or of its elements if it is a list. It panics if the type has no notation.
func notationOf(d protoreflect.FieldDescriptor) notation {
	switch kind := d.Kind(); {
	case kind == protoreflect.StringKind:
		return asText
	case d.IsList():
	case kind == protoreflect.BoolKind:
		return asBool
	case kind == protoreflect.EnumKind:
		return asEnum
	case kind == protoreflect.Int32Kind:
		return asNumber
	case kind == protoreflect.MessageKind && d.Message().FullName() == "google.protobuf.Struct":
		return asObject
	}
	panic(fmt.Sprintf("cli: no notation for the type of %s", d.FullName()))
}

// limitOf returns field.limit: how many bytes may be read from a file or from standard input. Only JSON objects and texts with the role
// document have a limit above 0.
func limitOf(d protoreflect.FieldDescriptor, n notation) int {
	if n == asObject {
		return maxMessageSize
	}
	if shownOption(d).GetRole() != fleetv1.Shown_document {
		return 0
	}
	rules, _ := proto.GetExtension(d.Options(), validate.E_Field).(*validate.FieldRules)
	if r := rules.GetString(); r.HasMaxBytes() {
		return int(min(r.GetMaxBytes(), math.MaxInt32))
	}
	return maxMessageSize
}

// acceptsFile reports whether the value can come from a file.
func (f *field) acceptsFile() bool { return f.limit > 0 }

// isRepeatable reports whether the flag or the argument can be given several times, and the values add up.
func (f *field) isRepeatable() bool { return f.desc.IsList() || f.notation == asObject }

// flagName returns the name of the field's flag.
func (f *field) flagName() string { return flagNameOf(string(f.desc.Name())) }

// flagNameOf returns the name of the flag for the field with that name in the proto.
func flagNameOf(field string) string { return strings.ReplaceAll(field, "_", "-") }

// nameInSentence returns the name of the field, or of one item of a list, for use in sentences.
func (f *field) nameInSentence() string { return nameInSentence(f.desc) }

// enumValues returns the names of the values of an enum field, without the unspecified one.
func (f *field) enumValues() (names []string) {
	if f.desc.Enum() == nil {
		return nil
	}
	for v := range itemsOf(f.desc.Enum().Values()) {
		if v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return names
}

// usage returns the help text of the field's flag.
func (f *field) usage() string {
	about, _, _ := strings.Cut(f.about, "\n") // the description of an enum continues with a list of its values
	text := lowerFirst(strings.TrimSuffix(about, "."))
	if values := f.enumValues(); len(values) > 0 {
		text += ": " + orList(values)
	}
	if f.desc.IsList() {
		text += "; separate several with commas, or repeat the flag"
	}
	return text
}

// valuePlaceholder returns the word that stands for the value in the help.
func (f *field) valuePlaceholder() string {
	switch f.notation {
	case asBool:
		return "bool"
	case asNumber:
		if shownOption(f.desc).GetUnit() == fleetv1.Shown_seconds {
			return "SECONDS"
		}
		return "N"
	case asObject:
		return "KEY=VALUE|JSON"
	}
	if f.acceptsFile() {
		return "TEXT"
	}
	words := strings.Fields(f.nameInSentence())
	return strings.ToUpper(words[len(words)-1])
}

// argumentName returns the field's name in the usage line.
func (f *field) argumentName() string {
	return strings.ToUpper(strings.ReplaceAll(f.nameInSentence(), " ", "-"))
}
