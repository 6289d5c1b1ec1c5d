package main

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
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
