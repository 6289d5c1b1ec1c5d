package wire

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// reader reads a request in one pass. It does not set a field whose value is null. After an error, the contents of the request
// have no meaning. The read methods with a bool result report success, and set err if they fail.
type reader struct {
	data       []byte
	pos        int                  // index of the next byte
	request    protoreflect.Message // the request, or the message in it that is read
	parentPath string               // path of that message, with a dot at the end; empty for the request itself
	depth      int                  // level of nesting of an object or list that is a field of that message
	fieldName  []byte               // name of the field that is read
	item       int                  // index of the item that is read, plus 1; 0 outside of lists
	err        error
}

// readRequest reads the request. The JSON must be one object.
func (r *reader) readRequest() {
	if r.peek() != '{' {
		if got := r.describeNext(); r.err == nil {
			r.err = Invalid(ReasonInvalidArgument, "", "expected a JSON object with the fields of the request, got %s", got)
		}
		return
	}
	r.readFields()
	if r.err == nil && (r.peek() != 0 || r.pos < len(r.data)) {
		r.err = Invalid(ReasonInvalidArgument, "", "there is more after the end of the JSON object; send one object")
	}
}

// readFields reads an object into the fields of r.request.
func (r *reader) readFields() {
	var buffer [16][]byte
	names := buffer[:0]
	for range r.members() {
		for _, name := range names {
			if bytes.Equal(name, r.fieldName) {
				r.fail("the field %q is given twice; give it once", r.path())
				return
			}
		}
		names = append(names, r.fieldName)
		f := r.descriptor()
		switch {
		case f == nil:
			r.failUnknownField()
		case r.peek() == 'n' && r.scanLiteral("null"):
		case f.IsMap():
			r.readStringMap(f)
		case f.IsList():
			r.readList(f)
		default:
			if v, ok := r.readValue(f); ok {
				r.request.Set(f, v)
			}
		}
	}
}

// readValue reads the value of the field or, if the field is a list, one item.
func (r *reader) readValue(f protoreflect.FieldDescriptor) (v protoreflect.Value, ok bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		s, ok := r.readString("a string")
		return protoreflect.ValueOfString(string(s)), ok
	case protoreflect.BytesKind:
		data, ok := r.readBytes()
		return protoreflect.ValueOfBytes(data), ok
	case protoreflect.BoolKind:
		b, ok := r.readBool()
		return protoreflect.ValueOfBool(b), ok
	case protoreflect.Int32Kind:
		const allowQuotes = false
		n, ok := r.readInteger(math.MinInt32, math.MaxInt32, allowQuotes)
		return protoreflect.ValueOfInt32(int32(n)), ok //nolint:gosec // readInteger checks the range
	case protoreflect.Int64Kind:
		const allowQuotes = true
		n, ok := r.readInteger(math.MinInt64, math.MaxInt64, allowQuotes)
		return protoreflect.ValueOfInt64(n), ok
	case protoreflect.DoubleKind:
		n, ok := r.readFloat()
		return protoreflect.ValueOfFloat64(n), ok
	case protoreflect.EnumKind:
		n, ok := r.readEnum(f)
		return protoreflect.ValueOfEnum(n), ok
	case protoreflect.MessageKind:
		return r.readMessage(f)
	default:
		r.fail("%s cannot be given as JSON", r.path())
		return protoreflect.Value{}, false
	}
}

// readMessage reads a message, or one of the well-known types that requests use.
func (r *reader) readMessage(f protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	name := f.Message().FullName()
	if name == (*timestamppb.Timestamp)(nil).ProtoReflect().Descriptor().FullName() {
		t, ok := r.readTime()
		return protoreflect.ValueOfMessage(t.ProtoReflect()), ok
	}
	if !r.requireStart('{', "an object") {
		return protoreflect.Value{}, false
	}
	if name == (*structpb.Struct)(nil).ProtoReflect().Descriptor().FullName() {
		return protoreflect.ValueOfMessage(r.readObject(r.depth).ProtoReflect()), r.err == nil
	}
	m := r.request.NewField(f)
	if f.IsList() {
		m = m.List().NewElement()
	}
	outer := *r
	r.request, r.parentPath, r.depth, r.fieldName, r.item = m.Message(), r.path()+".", r.depth+2, nil, 0 // one level is for the list, even if there is none
	r.readFields()
	r.request, r.parentPath, r.depth, r.fieldName, r.item = outer.request, outer.parentPath, outer.depth, outer.fieldName, outer.item
	return m, r.err == nil
}

func (r *reader) readList(f protoreflect.FieldDescriptor) {
	if !r.requireStart('[', "a list") {
		return
	}
	defer func() { r.item = 0 }()
	list := r.request.Mutable(f).List()
	for range r.elements() {
		r.item++
		if v, ok := r.readValue(f); ok {
			list.Append(v)
		}
	}
}

// readStringMap reads a JSON object whose values are strings.
func (r *reader) readStringMap(f protoreflect.FieldDescriptor) {
	const want = "an object whose values are strings"
	if !r.requireStart('{', want) {
		return
	}
	values, name := r.request.Mutable(f).Map(), r.fieldName
	defer func() { r.fieldName = name }()
	for range r.members() {
		key := protoreflect.ValueOfString(string(r.fieldName)).MapKey()
		r.fieldName = name
		if values.Has(key) {
			r.fail("%s has the key %q twice; give it once", r.subject(), Shorten(key.String()))
			return
		}
		if s, ok := r.readString(want); ok {
			values.Set(key, protoreflect.ValueOfString(string(s)))
		}
	}
}

// requireStart reports whether the value begins with the byte. If it does not, requireStart sets an error that says what is wanted.
func (r *reader) requireStart(c byte, want string) bool {
	if r.err != nil {
		return false
	}
	if r.peek() != c {
		r.failType(want)
		return false
	}
	return true
}

// readString reads a string. want describes it in errors.
func (r *reader) readString(want string) ([]byte, bool) {
	if !r.requireStart('"', want) {
		return nil, false
	}
	return r.scanString()
}

// readBytes reads bytes in base64, with the standard or the URL-safe alphabet, with or without padding.
func (r *reader) readBytes() ([]byte, bool) {
	const want = "a string in base64"
	s, ok := r.readString(want)
	if !ok {
		return nil, false
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	text := bytes.TrimRight(s, "=")
	out := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(out, text)
	if padding := len(s) - len(text); err != nil || padding > 0 && len(s)%4 != 0 || padding > 2 {
		r.fail("%s must be %s, got %q", r.path(), want, Shorten(string(s)))
		return nil, false
	}
	return out[:n], true
}

func (r *reader) readBool() (value, ok bool) {
	switch {
	case r.err != nil:
	case r.peek() == 't':
		return true, r.scanLiteral("true")
	case r.peek() == 'f':
		return false, r.scanLiteral("false")
	default:
		r.failType("true or false")
	}
	return false, false
}

// readFloat reads a number. It refuses a number that is too large for a float64.
func (r *reader) readFloat() (float64, bool) {
	if r.err != nil {
		return 0, false
	}
	if c := r.peek(); c != '-' && !isDigit(c) {
		r.failType("a number")
		return 0, false
	}
	text, ok := r.scanNumber()
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		r.fail("%s is too large: %s", r.path(), Shorten(string(text)))
	}
	return n, err == nil
}

// readTime reads a time in the format of RFC 3339, with at most 9 fractional digits, of the years 1 to 9999.
func (r *reader) readTime() (*timestamppb.Timestamp, bool) {
	s, ok := r.readString("a string")
	if !ok {
		return nil, false
	}
	t, err := time.Parse(time.RFC3339, string(s))
	stamp := timestamppb.New(t)
	point, zone := bytes.LastIndexByte(s, '.'), bytes.LastIndexAny(s, "Z-+")
	if tooFine := point >= 0 && zone-point > len(".999999999"); err != nil || tooFine || !stamp.IsValid() {
		r.fail("%s must be a time like 2026-11-22T10:30:00Z, got %q", r.path(), Shorten(string(s)))
		return nil, false
	}
	return stamp, true
}

// readEnum reads the name of an enum value. The zero value cannot be given.
func (r *reader) readEnum(f protoreflect.FieldDescriptor) (protoreflect.EnumNumber, bool) {
	if r.err != nil {
		return 0, false
	}
	if r.peek() != '"' {
		r.failType(r.oneOf())
		return 0, false
	}
	s, ok := r.scanString()
	if !ok {
		return 0, false
	}
	value := f.Enum().Values().ByName(protoreflect.Name(s))
	if value == nil || value.Number() == 0 {
		r.failUnknownValue(string(s))
		return 0, false
	}
	return value.Number(), true
}

// readObject reads an object with any keys and values. depth is its level of nesting.
func (r *reader) readObject(depth int) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	field := r.fieldName
	defer func() { r.fieldName = field }()
	for range r.members() {
		key := string(r.fieldName)
		r.fieldName = field
		if _, twice := s.Fields[key]; twice {
			r.fail("%s has the key %q twice; give it once", r.subject(), Shorten(key))
			return s
		}
		s.Fields[key] = r.readAny(depth + 1)
	}
	return s
}

// readAny reads any JSON value. depth is its level of nesting.
func (r *reader) readAny(depth int) *structpb.Value {
	c := r.peek()
	if (c == '{' || c == '[') && depth > MaxDepth {
		r.err = tooDeepError()
		return nil
	}
	switch c {
	case '{':
		return structpb.NewStructValue(r.readObject(depth))
	case '[':
		list := &structpb.ListValue{}
		for range r.elements() {
			list.Values = append(list.Values, r.readAny(depth+1))
		}
		return structpb.NewListValue(list)
	case '"':
		s, _ := r.scanString()
		return structpb.NewStringValue(string(s))
	case 't':
		return structpb.NewBoolValue(r.scanLiteral("true"))
	case 'f':
		return structpb.NewBoolValue(!r.scanLiteral("false"))
	case 'n':
		r.scanLiteral("null")
		return structpb.NewNullValue()
	}
	n, ok := r.scanNumber()
	x, err := strconv.ParseFloat(string(n), 64)
	if ok && err != nil {
		r.fail("%s has a number that is too large: %s", r.subject(), Shorten(string(n)))
	}
	return structpb.NewNumberValue(x)
}
