package wire

import (
	"bytes"
	"encoding/base64"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Reader reads a request in one pass. Its methods read the value of a field; the generated ReadField methods call them.
// A method does not set the field if its value is null. After an error, the fields have no meaning.
type Reader struct {
	data    []byte
	at      int     // next byte
	request Request // the request, or the message in it that is read
	within  string  // path of the message in the request, with a dot at the end; empty for the request itself
	depth   int     // level of nesting of the message's fields
	field   []byte  // name of the field that is read
	item    int     // index of the item that is read, plus 1; 0 outside of lists
	null    bool    // the value of the field is null
	err     error
}

// readRequest reads the request. The JSON must be one object.
func (r *Reader) readRequest() {
	if r.peek() != '{' {
		if got := r.got(); r.err == nil {
			r.err = Invalid(invalidArgument, "", "expected a JSON object with the fields of the request, got %s", got)
		}
		return
	}
	r.fields()
	if r.err == nil && (r.peek() != 0 || r.at < len(r.data)) {
		r.err = Invalid(invalidArgument, "", "there is more after the end of the JSON object; send one object")
	}
}

// fields reads the object of r.request.
func (r *Reader) fields() {
	var few [16][]byte
	seen := few[:0]
	for range r.members() {
		for _, name := range seen {
			if bytes.Equal(name, r.field) {
				r.fail("the field %q is given twice; give it once", r.path())
				return
			}
		}
		seen = append(seen, r.field)
		r.null = r.peek() == 'n' && r.literal("null")
		if !r.request.ReadField(r, r.field) {
			r.unknownField()
		}
	}
}

// begins reports whether the value begins with the byte. If it does not, begins sets an error that says what is
// expected. For null it returns false without an error.
func (r *Reader) begins(c byte, want string) bool {
	if r.null || r.err != nil {
		return false
	}
	if r.peek() != c {
		r.wrongType(want)
		return false
	}
	return true
}

// String reads a text.
func (r *Reader) String(to *string) {
	if r.begins('"', "a string") {
		if s, ok := r.text(); ok {
			*to = string(s)
		}
	}
}

// Bytes reads base64 of either alphabet, with or without padding.
func (r *Reader) Bytes(to *[]byte) {
	const want = "a string in base64"
	if !r.begins('"', want) {
		return
	}
	s, ok := r.text()
	if !ok {
		return
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(s, "-_") {
		encoding = base64.RawURLEncoding
	}
	text := bytes.TrimRight(s, "=")
	out := make([]byte, encoding.DecodedLen(len(text)))
	n, err := encoding.Decode(out, text)
	if padding := len(s) - len(text); err != nil || padding > 0 && len(s)%4 != 0 || padding > 2 {
		r.fail("%s must be %s, got %q", r.path(), want, short(string(s)))
		return
	}
	*to = out[:n]
}

// Bool reads true or false.
func (r *Reader) Bool(to *bool) {
	switch {
	case r.null || r.err != nil:
	case r.peek() == 't' && r.literal("true"):
		*to = true
	case r.peek() == 'f' && r.literal("false"):
		*to = false
	default:
		r.wrongType("true or false")
	}
}

// Int reads a whole number of 32 bits.
func (r *Reader) Int(to *int32) {
	if n, ok := r.whole(math.MinInt32, math.MaxInt32, false); ok {
		*to = int32(n) //nolint:gosec // whole checks the range
	}
}

// Int64 reads a whole number of 64 bits, which may be in quotes.
func (r *Reader) Int64(to *int64) {
	if n, ok := r.whole(math.MinInt64, math.MaxInt64, true); ok {
		*to = n
	}
}

// Float reads a number.
func (r *Reader) Float(to *float64) {
	if r.null || r.err != nil {
		return
	}
	if c := r.peek(); c != '-' && !isDigit(c) {
		r.wrongType("a number")
		return
	}
	if n, ok := r.number(); ok {
		var err error
		if *to, err = strconv.ParseFloat(string(n), 64); err != nil {
			r.fail("%s is too large: %s", r.path(), short(string(n)))
		}
	}
}

// Time reads a time.
func (r *Reader) Time(to **timestamppb.Timestamp) {
	if !r.begins('"', "a string") {
		return
	}
	s, ok := r.text()
	if !ok {
		return
	}
	t, err := time.Parse(time.RFC3339, string(s))
	stamp := timestamppb.New(t)
	point, zone := bytes.LastIndexByte(s, '.'), bytes.LastIndexAny(s, "Z-+")
	if tooFine := point >= 0 && zone-point > len(".999999999"); err != nil || tooFine || !stamp.IsValid() {
		r.fail("%s must be a time like 2026-11-22T10:30:00Z, got %q", r.path(), short(string(s)))
		return
	}
	*to = stamp
}

// Struct reads any JSON object.
func (r *Reader) Struct(to **structpb.Struct) {
	if r.begins('{', "an object") {
		*to = r.object(r.depth)
	}
}

// Texts reads a JSON object whose values are texts.
func (r *Reader) Texts(to *map[string]string) {
	const want = "an object whose values are strings"
	if !r.begins('{', want) {
		return
	}
	values, field := map[string]string{}, r.field
	defer func() { r.field = field }()
	for range r.members() {
		key := string(r.field)
		r.field = field
		if _, twice := values[key]; twice {
			r.fail("%s has the key %q twice; give it once", r.subject(), short(key))
			return
		}
		if r.peek() != '"' {
			r.wrongType(want)
			return
		}
		value, _ := r.text()
		values[key] = string(value)
	}
	*to = values
}

// Enum reads the name of an enum value. The zero value cannot be given.
func Enum[E ~int32](r *Reader, to *E, values map[string]int32) {
	if r.null || r.err != nil {
		return
	}
	if r.peek() != '"' {
		r.wrongType(r.oneOf())
		return
	}
	if s, ok := r.text(); ok {
		value := values[string(s)]
		if value == 0 {
			r.unknownValue(string(s))
		}
		*to = E(value)
	}
}

// Optional reads the value of an optional field.
func Optional[T any](r *Reader, to **T, read func(*Reader, *T)) {
	if !r.null {
		*to = new(T)
		read(r, *to)
	}
}

// List reads a list whose items are read by each.
func List[T any](r *Reader, to *[]T, each func(*Reader, *T)) {
	if !r.begins('[', "a list") {
		return
	}
	defer func() { r.item = 0 }()
	for range r.elements() {
		r.item++
		var v T
		each(r, &v)
		*to = append(*to, v)
	}
}

// Message reads a message.
func Message[M any, P interface {
	*M
	Request
}](r *Reader, to *P) {
	if !r.begins('{', "an object") {
		return
	}
	*to = new(M)
	outer := *r
	r.request, r.within, r.depth, r.field, r.item = *to, r.path()+".", r.depth+2, nil, 0 // one level for the list
	r.fields()
	r.request, r.within, r.depth, r.field, r.item, r.null = outer.request, outer.within, outer.depth, outer.field, outer.item, false
}

// object reads an object. depth is its level of nesting.
func (r *Reader) object(depth int) *structpb.Struct {
	s := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	field := r.field
	defer func() { r.field = field }()
	for range r.members() {
		key := string(r.field)
		r.field = field
		if _, twice := s.Fields[key]; twice {
			r.fail("%s has the key %q twice; give it once", r.subject(), short(key))
			return s
		}
		s.Fields[key] = r.any(depth + 1)
	}
	return s
}

// any reads a value. depth is its level of nesting.
func (r *Reader) any(depth int) *structpb.Value {
	c := r.peek()
	if (c == '{' || c == '[') && depth > MaxDepth {
		r.err = tooDeep()
		return nil
	}
	switch c {
	case '{':
		return structpb.NewStructValue(r.object(depth))
	case '[':
		list := &structpb.ListValue{}
		for range r.elements() {
			list.Values = append(list.Values, r.any(depth+1))
		}
		return structpb.NewListValue(list)
	case '"':
		s, _ := r.text()
		return structpb.NewStringValue(string(s))
	case 't':
		return structpb.NewBoolValue(r.literal("true"))
	case 'f':
		return structpb.NewBoolValue(!r.literal("false"))
	case 'n':
		r.literal("null")
		return structpb.NewNullValue()
	}
	n, ok := r.number()
	x, err := strconv.ParseFloat(string(n), 64)
	if ok && err != nil {
		r.fail("%s has a number that is too large: %s", r.subject(), short(string(n)))
	}
	return structpb.NewNumberValue(x)
}
