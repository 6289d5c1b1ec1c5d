package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/cmd/internal/option"
)

// These options from fleet/v1/options.proto limit the size of a tool's result.
const (
	portionOption = protoreflect.FullName("fleet.v1.portion")
	cutOption     = protoreflect.FullName("fleet.v1.cut")
)

// writeLimits writes the fields Portion and Cuts of a method's tool.
func (g generator) writeLimits(m *protogen.Method) error {
	if v, ok := g.options.Get(m.Desc, portionOption); ok {
		limit, of := option.TextIn(v.Message(), "limit"), option.TextIn(v.Message(), "of")
		f := fieldOf(m.Input, protoreflect.Name(limit))
		if !isOptionalInt32(f) {
			return fmt.Errorf("%s names the limit field %q, but %s has no optional int32 field of that name", portionOption, limit, m.Input.Desc.Name())
		}
		limitedField, err := sizedField(m.Output, of)
		if err != nil {
			return fmt.Errorf("%s: %w", portionOption, err)
		}
		if err := checkContinuation(m, limitedField, option.TextIn(v.Message(), "next"), option.TextIn(v.Message(), "from")); err != nil {
			return fmt.Errorf("%s: %w", portionOption, err)
		}
		if !hintsOf(m).readOnly {
			return fmt.Errorf("%s needs a method without side effects, because the call is repeated", portionOption)
		}
		follow := g.options.Text(m.Desc, eventStreamOption, "follow") // a call that sets this field cannot be repeated
		g.P("Portion: ", toolPackage.Ident("Portion"), "{Limit: ", strconv.Quote(limit), ", Of: ", strconv.Quote(of), ", Unless: ", strconv.Quote(follow), "},")
	}
	cuts, err := g.cuts(m, m.Output, "")
	if err != nil || len(cuts) == 0 {
		return err
	}
	g.P("Cuts: []", toolPackage.Ident("Cut"), "{")
	for _, c := range cuts {
		g.P(c, ",")
	}
	g.P("},")
	return nil
}

// checkContinuation returns an error if a field with which a caller gets the rest does not exist. next names the field of the answer, and
// from the field of the request. Both may be empty.
func checkContinuation(m *protogen.Method, limitedField *protogen.Field, next, from string) error {
	container := m.Output // the message that must contain the field next
	if !limitedField.Desc.IsList() {
		container = limitedField.Parent
	}
	switch {
	case next == "" && from == "":
		return nil
	case fieldOf(container, protoreflect.Name(next)) == nil:
		return fmt.Errorf("next names the field %q, but %s has no such field", next, container.Desc.Name())
	case fieldOf(m.Input, protoreflect.Name(from)) == nil:
		return fmt.Errorf("from names the field %q, but %s has no such field", from, m.Input.Desc.Name())
	}
	return nil
}

// cuts returns the Cut of each field with the option cut, as source code. It searches the message in, which is at prefix in the
// response of m, and its nested messages. It skips messages in lists and maps, and fields whose path has more than four names.
func (g generator) cuts(m *protogen.Method, in *protogen.Message, prefix string) ([]string, error) {
	var all []string
	for _, f := range in.Fields {
		path := prefix + string(f.Desc.Name())
		v, ok := g.options.Get(f.Desc, cutOption)
		switch {
		case ok:
			text, err := cutOf(m, in, f, path, v.Message())
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", cutOption, f.Desc.FullName(), err)
			}
			all = append(all, text)
		case f.Message != nil && !f.Desc.IsList() && !f.Desc.IsMap() && f.Message != in && strings.Count(path, ".") < 3:
			deeper, err := g.cuts(m, f.Message, path+".")
			if err != nil {
				return nil, err
			}
			all = append(all, deeper...)
		}
	}
	return all, nil
}

// cutOf returns the Cut of the field f of the message in, as source code. The field is at path in the response of m, and v is its option
// cut.
func cutOf(m *protogen.Method, in *protogen.Message, f *protogen.Field, path string, v protoreflect.Message) (string, error) {
	text := "{Field: " + strconv.Quote(path)
	isText := f.Desc.Kind() == protoreflect.StringKind && !f.Desc.IsList()
	if next := option.TextIn(v, "next_offset"); next != "" {
		if !isText || !isOptionalInt32(fieldOf(in, protoreflect.Name(next))) {
			return "", fmt.Errorf("next_offset needs a string field, and an optional int32 field %q in the same message", next)
		}
		text += ", NextOffset: " + strconv.Quote(next)
	}
	// A message may be part of the answers of several methods, and not all of them have the parameter offset.
	if offset := option.TextIn(v, "offset"); offset != "" && isOptionalInt32(fieldOf(m.Input, protoreflect.Name(offset))) {
		text += ", Offset: " + strconv.Quote(offset)
	}
	if cursor := option.TextIn(v, "cursor"); cursor != "" {
		item := option.TextIn(v, "item_cursor")
		if !f.Desc.IsList() || f.Message == nil || fieldOf(f.Message, protoreflect.Name(item)) == nil || fieldOf(in, protoreflect.Name(cursor)) == nil {
			return "", fmt.Errorf("cursor needs a list of messages that have the field %q (item_cursor), and a field %q beside the list", item, cursor)
		}
		text += ", Cursor: " + strconv.Quote(cursor) + ", ItemCursor: " + strconv.Quote(item)
	}
	if v.Get(v.Descriptor().Fields().ByName("keep_last")).Bool() {
		if !f.Desc.IsList() || f.Message == nil {
			return "", errors.New("keep_last needs a list of messages")
		}
		text += ", KeepLast: true"
	}
	return text + "}", nil
}

// sizedField returns the field at the path. It returns an error if the field does not exist, or is neither a list nor a string.
func sizedField(m *protogen.Message, path string) (*protogen.Field, error) {
	for in := m; ; {
		name, rest, hasMore := strings.Cut(path, ".")
		f := fieldOf(in, protoreflect.Name(name))
		switch {
		case f == nil || hasMore && (f.Message == nil || f.Desc.IsList()):
			return nil, fmt.Errorf("%s has no field %q", in.Desc.Name(), path)
		case hasMore:
			in, path = f.Message, rest
		case !f.Desc.IsList() && f.Desc.Kind() != protoreflect.StringKind:
			return nil, fmt.Errorf("%s.%s is neither a list nor a string", in.Desc.Name(), path)
		default:
			return f, nil
		}
	}
}

// isOptionalInt32 reports whether f is an optional int32 field. f may be nil.
func isOptionalInt32(f *protogen.Field) bool {
	return f != nil && f.Desc.Kind() == protoreflect.Int32Kind && f.Desc.HasOptionalKeyword()
}
