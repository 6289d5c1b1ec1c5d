package main

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// writeTask writes the fields Task and TaskOutlivesCall of a method's tool.
func (g generator) writeTask(m *protogen.Method) error {
	path := g.options.Text(m.Desc, taskOption, "task_id")
	if path == "" {
		return nil
	}
	f, err := sizedField(m.Output, path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", taskOption, err)
	case f.Desc.IsList() || hintsOf(m).readOnly:
		return fmt.Errorf("%s needs a method with side effects, and names %q, which must be one text", taskOption, path)
	}
	if g.options.FieldWithRole(m.Input, "request_id") == nil {
		return fmt.Errorf("%s needs a request with a request_id, because a call may be repeated", taskOption)
	}
	g.P("Task: ", strconv.Quote(path), ",")
	if v, _ := g.options.Get(m.Desc, taskOption); v.Message().Get(v.Message().Descriptor().Fields().ByName("outlives_call")).Bool() {
		g.P("TaskOutlivesCall: true,")
	}
	return nil
}

// hasBriefInput reports whether a request of the method has fields that only operators need.
func (g generator) hasBriefInput(m *protogen.Method) bool {
	for _, f := range m.Input.Fields {
		if g.options.Bool(f.Desc, operatorFieldOption) {
			return true
		}
	}
	return false
}

// leavesOut reports whether the schema does not describe the field.
func (s schemas) leavesOut(d protoreflect.Descriptor) bool {
	return s.brief && s.options.Bool(d, operatorFieldOption)
}
