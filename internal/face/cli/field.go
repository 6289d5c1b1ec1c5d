package cli

import (
	"math"
	"slices"
	"strings"
	"unicode"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field is a field of a request, as it is given on the command line.
type field struct {
	desc     protoreflect.FieldDescriptor
	about    string
	required bool
	form     form
	// limit is the longest text that is read from a file or standard input, in bytes; 0 means that the value is a name, an
	// id or the like, which is given as it is.
	limit int
}

// form is how a value is written on the command line.
type form int

const (
	asWords    form = iota // any text: names, times, numbers that are larger than JSON's
	asNumber               // a number
	asBool                 // true, false, or nothing at all, which is true
	asOneOf                // one of the values of an enum
	asObject               // JSON, or KEY=VALUE pairs of any values
	asTextPair             // JSON, or KEY=VALUE pairs of texts
	asJSON                 // JSON of any kind, or a text
)

// shortText is the most bytes of a name. What may be longer is a text that people keep in files.
const shortText = 1024

func fieldsOf(m *method, texts manual) (list []*field) {
	all := m.desc.Input().Fields()
	for i := range all.Len() {
		d := all.Get(i)
		f := &field{desc: d, about: texts.field(m.desc, d), form: formOf(d)}
		behaviours, _ := proto.GetExtension(d.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
		if slices.Contains(behaviours, annotations.FieldBehavior_OUTPUT_ONLY) {
			continue
		}
		f.required = slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED)
		f.limit = limitOf(m, d, f.form)
		list = append(list, f)
	}
	return list
}

// formOf chooses the form by the type of the field, or of the values in a list.
func formOf(d protoreflect.FieldDescriptor) form {
	if d.IsMap() {
		if d.MapValue().Kind() == protoreflect.StringKind {
			return asTextPair
		}
		return asObject
	}
	switch d.Kind() {
	case protoreflect.BoolKind:
		return asBool
	case protoreflect.EnumKind:
		return asOneOf
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return messageForm(d.Message())
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind,
		protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return asWords
	}
	return asNumber
}

func messageForm(d protoreflect.MessageDescriptor) form {
	if d.ParentFile().Package() != "google.protobuf" {
		return asObject
	}
	switch d.Name() {
	case "Timestamp", "Duration", "FieldMask":
		return asWords
	case "Value", "ListValue":
		return asJSON
	}
	if value := d.Fields().ByName("value"); value != nil && d.Fields().Len() == 1 { // a wrapper is written as what it wraps
		return formOf(value)
	}
	return asObject
}

// limitOf says how much of a text is read from elsewhere. Texts are what goes into the body of a call and may be long;
// what is in its path, is called a name or an id, or is kept short by a rule, is none.
func limitOf(m *method, d protoreflect.FieldDescriptor, f form) int {
	if f == asObject || f == asTextPair || f == asJSON {
		return maxAnswer
	}
	if f != asWords || d.IsList() || (d.Kind() != protoreflect.StringKind && d.Kind() != protoreflect.BytesKind) || !m.inBody(d) {
		return 0
	}
	rules, _ := proto.GetExtension(d.Options(), validate.E_Field).(*validate.FieldRules)
	r := rules.GetString()
	name := string(d.Name())
	if r.HasMaxLen() && r.GetMaxLen() <= shortText || r.HasPattern() || len(r.GetIn()) > 0 ||
		strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "_name") {
		return 0
	}
	if r.HasMaxBytes() {
		return int(min(r.GetMaxBytes(), math.MaxInt32))
	}
	return maxAnswer
}

// isText says whether the value can come from a file.
func (f *field) isText() bool { return f.limit > 0 }

// many says whether the field takes several values.
func (f *field) many() bool { return f.desc.IsList() || f.form == asTextPair || f.form == asObject }

// flag is the field's name as a flag.
func (f *field) flag() string { return strings.ReplaceAll(string(f.desc.Name()), "_", "-") }

// plain is what the field is called in sentences.
func (f *field) plain() string { return strings.ReplaceAll(string(f.desc.Name()), "_", " ") }

// isRequestID says whether the field makes a repeated call safe.
func (f *field) isRequestID() bool { return f.desc.Name() == "request_id" }

// values are what an enum field may be, without the value that says nothing.
func (f *field) values() (names []string) {
	if f.desc.Enum() == nil {
		return nil
	}
	all := f.desc.Enum().Values()
	for i := range all.Len() {
		if all.Get(i).Number() != 0 {
			names = append(names, string(all.Get(i).Name()))
		}
	}
	return names
}

// usage is the help text of the field's flag.
func (f *field) usage() string {
	if f.isRequestID() {
		return "an id of your choice: the same command with it again does nothing twice"
	}
	text := lowerFirst(strings.TrimSuffix(f.about, "."))
	if values := f.values(); len(values) > 0 && !strings.Contains(text, values[0]) {
		text += ": " + orList(values)
	}
	if f.desc.IsList() {
		text += "; several with commas, or with the flag again"
	}
	return text
}

// placeholder is what stands for the value in the help.
func (f *field) placeholder() string {
	if f.isRequestID() {
		return "ID"
	}
	switch f.form {
	case asBool:
		return "bool"
	case asNumber:
		return "N"
	case asObject, asTextPair, asJSON:
		if f.desc.IsList() {
			return "JSON"
		}
		return "KEY=VALUE|JSON"
	}
	if f.isText() {
		return "TEXT"
	}
	words := strings.Split(f.plain(), " ")
	return f.one(words[len(words)-1])
}

// argument is what the field is called as an argument in the usage line: in capitals, of a list one of them.
func (f *field) argument() string { return f.one(f.flag()) }

func (f *field) one(name string) string {
	if f.desc.IsList() {
		name = singular(name)
	}
	return strings.ToUpper(name)
}

// lowerFirst writes a sentence as the rest of a line, unless it begins with a name or an abbreviation.
func lowerFirst(text string) string {
	runes := []rune(text)
	if len(runes) > 1 && unicode.IsUpper(runes[0]) && (unicode.IsLower(runes[1]) || runes[1] == ' ') {
		runes[0] = unicode.ToLower(runes[0])
	}
	return string(runes)
}

// orList writes "a, b or c".
func orList(list []string) string { return joined(list, " or ") }

// andList writes "a, b and c".
func andList(list []string) string { return joined(list, " and ") }

func joined(list []string, last string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + last + list[len(list)-1]
}
