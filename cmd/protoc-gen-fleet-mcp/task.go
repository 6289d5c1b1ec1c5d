package main

import (
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// writeTask writes the field Task of a method's tool.
func (g generator) writeTask(m *protogen.Method) error {
	path := g.options.Text(m.Desc, taskOption, "task_id")
	if path == "" {
		return nil
	}
	if f := stringFieldAt(m.Output, path); f == nil || hintsOf(m).readOnly {
		return fmt.Errorf("%s needs a method with side effects, and names %q, which must be a text", taskOption, path)
	}
	if g.options.FieldWithRole(m.Input, "request_id") == nil {
		return fmt.Errorf("%s needs a request with a request_id, because a call may be repeated", taskOption)
	}
	fields := "Path: " + strconv.Quote(path)
	v, _ := g.options.Get(m.Desc, taskOption)
	for _, f := range []struct {
		option protoreflect.Name
		field  string
	}{{"outlives_call", "OutlivesCall"}, {"at_once", "AtOnce"}, {"landed", "Landed"}} {
		if v.Message().Get(v.Message().Descriptor().Fields().ByName(f.option)).Bool() {
			fields += ", " + f.field + ": true"
		}
	}
	if unless := g.options.Text(m.Desc, taskOption, "unless"); unless != "" {
		if f := fieldOf(m.Input, protoreflect.Name(unless)); f == nil || f.Desc.Kind() != protoreflect.BoolKind {
			return fmt.Errorf("%s: %s has no bool field %q", taskOption, m.Input.Desc.Name(), unless)
		}
		fields += ", Unless: " + strconv.Quote(unless)
	}
	g.P("Task: ", toolPackage.Ident("TaskSpec"), "{", fields, "},")
	return nil
}

// stringFieldAt returns the string field at the path, which may pass through lists; nil if it does not exist.
func stringFieldAt(in *protogen.Message, path string) *protogen.Field {
	name, rest, hasMore := strings.Cut(path, ".")
	f := fieldOf(in, protoreflect.Name(name))
	switch {
	case f == nil || !hasMore && (f.Desc.Kind() != protoreflect.StringKind || f.Desc.IsList()):
		return nil
	case !hasMore:
		return f
	case f.Message == nil || f.Desc.IsMap():
		return nil
	}
	return stringFieldAt(f.Message, rest)
}
