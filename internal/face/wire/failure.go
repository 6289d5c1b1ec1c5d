package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// The methods of this file set the error of the reader, or describe a part of the request for the error.

// descriptor returns the descriptor of the field that is read; nil if the message has no such field.
func (r *reader) descriptor() protoreflect.FieldDescriptor {
	return r.request.Descriptor().Fields().ByName(protoreflect.Name(r.fieldName))
}

// path returns the path of the field that is read, and in a list also the index of the item, from 0.
func (r *reader) path() string {
	if r.item > 0 {
		return fmt.Sprintf("%s%s[%d]", r.parentPath, r.fieldName, r.item-1)
	}
	return r.parentPath + string(r.fieldName)
}

// subject returns the field that is read, or "the JSON" outside of a field. It is the beginning of an error.
func (r *reader) subject() string {
	if len(r.fieldName) == 0 {
		return "the JSON"
	}
	return r.path()
}

// fail sets an error about the field that is read, with the field's reason (see InvalidReason), unless there is an error already.
func (r *reader) fail(format string, args ...any) {
	if r.err != nil {
		return
	}
	reason := ReasonInvalidArgument
	if f := r.descriptor(); f != nil {
		reason = InvalidReason(f)
	}
	r.err = Invalid(reason, r.path(), format, args...)
}

// failInvalid sets an error that says why the JSON is not valid at the next byte, unless there is an error already. It always
// returns false, so that a scan method can return its result.
func (r *reader) failInvalid() bool {
	switch {
	case r.err != nil:
	case r.pos >= len(r.data):
		r.err = Invalid(ReasonInvalidArgument, "", "the JSON ends too early")
	case !utf8.Valid(r.data):
		r.err = notUTF8Error(firstInvalid(r.data))
	default:
		next, _ := utf8.DecodeRune(r.data[r.pos:])
		r.err = Invalid(ReasonInvalidArgument, "", "the JSON is not valid at byte %d: %q cannot be here", r.pos, next)
	}
	return false
}

// failType sets an error that says which type the field must have, and which type the next value has.
func (r *reader) failType(want string) {
	got := r.describeNext()
	r.fail("%s must be %s, got %s", r.path(), want, got)
}

// describeNext reads the next value and describes its type.
func (r *reader) describeNext() string {
	switch c := r.peek(); c {
	case '{':
		r.readAny(r.depth)
		return "an object"
	case '[':
		r.readAny(r.depth)
		return "a list"
	case '"':
		s, _ := r.scanString()
		return "the string " + strconv.Quote(Shorten(string(s)))
	case 't', 'f', 'n':
		word := map[byte]string{'t': "true", 'f': "false", 'n': "null"}[c]
		r.scanLiteral(word)
		return word
	}
	n, _ := r.scanNumber()
	return "the number " + Shorten(string(n))
}

func (r *reader) failUnknownField() {
	fields := r.request.Descriptor().Fields()
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = string(fields.Get(i).Name())
	}
	name := string(r.fieldName)
	hint := "the request has no fields"
	if near := Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(names) > 0 {
		hint = "the known fields are " + strings.Join(names, ", ")
	}
	r.err = Invalid(ReasonInvalidArgument, r.parentPath+Shorten(name), "unknown field %q: %s", r.parentPath+Shorten(name), hint)
}

// enumNames returns the names of the values that the field can have. It leaves out the zero value, which means that the
// field is not given.
func (r *reader) enumNames() []string {
	values := r.descriptor().Enum().Values()
	var names []string
	for i := range values.Len() {
		if v := values.Get(i); v.Number() != 0 {
			names = append(names, string(v.Name()))
		}
	}
	return names
}

// oneOf says which names the field accepts, for an error.
func (r *reader) oneOf() string { return "one of " + strings.Join(r.enumNames(), ", ") }

func (r *reader) failUnknownValue(name string) {
	hint := ""
	if near := Nearest(name, r.enumNames()); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	r.fail("%s must be %s, got %q%s", r.path(), r.oneOf(), Shorten(name), hint)
}

// Shorten prepares a client's text for an error, so that the error does not echo megabytes. The result is valid UTF-8. A text of more
// than 100 bytes is cut off, and ends with "...".
func Shorten(s string) string {
	const maxBytes = 100
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxBytes {
		return s
	}
	end := maxBytes
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "..."
}
