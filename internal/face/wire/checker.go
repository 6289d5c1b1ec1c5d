package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// checker compares JSON with the descriptor of its message and names the field that does not fit. protojson reads the
// message afterwards. By itself it would write errors for programmers, would accept camelCase names, quoted numbers and
// enum numbers, and cannot name the nearest field.
type checker struct{ dec *json.Decoder }

func newChecker(data []byte) *checker {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &checker{dec: dec}
}

// root checks the object that the whole JSON must be.
func (c *checker) root(m protoreflect.MessageDescriptor) error {
	t, err := c.dec.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return Invalid(invalidArgument, "", "Expected a JSON object with the fields of the request, got %s.", nameOf(t))
	}
	if err := c.object(m, ""); err != nil {
		return err
	}
	if _, err := c.dec.Token(); err != io.EOF {
		if err != nil {
			return err
		}
		return Invalid(invalidArgument, "", "There is more after the end of the JSON object; send one object.")
	}
	return nil
}

// object checks the members of an object up to its closing brace.
func (c *checker) object(m protoreflect.MessageDescriptor, path string) error {
	seen := map[string]bool{}
	for c.dec.More() {
		t, err := c.dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		at := join(path, short(key))
		f := m.Fields().ByName(protoreflect.Name(key))
		if f == nil {
			return unknownField(m, key, at)
		}
		if seen[key] {
			return Invalid(InvalidReason(f), at, "The field %q is given twice; give it once.", at)
		}
		seen[key] = true
		if err := c.field(f, at); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

// field checks the value of a field. Null means that the field is not given.
func (c *checker) field(f protoreflect.FieldDescriptor, at string) error {
	t, err := c.dec.Token()
	if err != nil {
		return err
	}
	switch {
	case t == nil:
		return nil
	case f.IsMap():
		return c.mapping(f, t, at)
	case f.IsList():
		return c.list(f, t, at)
	}
	return c.value(f, f, t, at)
}

func (c *checker) list(f protoreflect.FieldDescriptor, t json.Token, at string) error {
	if t != json.Delim('[') {
		return wrongType(f, at, "a list", t)
	}
	for i := 0; c.dec.More(); i++ {
		t, err := c.dec.Token()
		if err != nil {
			return err
		}
		if err := c.value(f, f, t, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

func (c *checker) mapping(f protoreflect.FieldDescriptor, t json.Token, at string) error {
	if t != json.Delim('{') {
		return wrongType(f, at, "an object", t)
	}
	seen := map[string]bool{}
	for c.dec.More() {
		t, err := c.dec.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		at := join(at, short(key))
		if seen[key] {
			return Invalid(InvalidReason(f), at, "The key %q is given twice; give it once.", at)
		}
		seen[key] = true
		if t, err = c.dec.Token(); err != nil {
			return err
		}
		if err := c.value(f, f.MapValue(), t, at); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

// skip skips the rest of a value that protojson checks. t is its first token.
func (c *checker) skip(t json.Token) error {
	if t != json.Delim('{') && t != json.Delim('[') {
		return nil
	}
	for c.dec.More() {
		t, err := c.dec.Token()
		if err != nil {
			return err
		}
		if err := c.skip(t); err != nil {
			return err
		}
	}
	_, err := c.dec.Token()
	return err
}

func unknownField(m protoreflect.MessageDescriptor, key, at string) error {
	names := make([]string, m.Fields().Len())
	for i := range names {
		names[i] = string(m.Fields().Get(i).Name())
	}
	hint := "none are known here"
	if near := Nearest(key, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(names) > 0 {
		hint = "the known fields are " + strings.Join(names, ", ")
	}
	return Invalid(invalidArgument, at, "unknown field %q: %s", at, hint)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
