package main

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"

	"fleet/cmd/internal/option"
)

// lastArgument returns the source code of an argument of a tool whose method streams. The argument is a function that reports
// whether a message is the last message of the stream, which is the method's result.
func (g generator) lastArgument(m *protogen.Method) ([]any, error) {
	f, v := g.options.LastMarker(m.Output)
	if f == nil || !m.Desc.IsStreamingServer() {
		return nil, fmt.Errorf("%s needs a streaming method whose messages have an enum field with a value that is marked as last", option.LastIsResult)
	}
	return []any{", func(m *", m.Output.GoIdent, ") bool { return m.Get", f.GoName, "() == ", v.GoIdent, " }"}, nil
}

// writeWatch writes the variable "watch". Tools that report progress read events through it. If no method of the service
// reports progress, it writes nothing.
func (g generator) writeWatch(s *protogen.Service) error {
	needed := false
	for _, m := range s.Methods {
		v, ok := g.options.Get(m.Desc, progressOption)
		needed = needed || ok && v.String() != ""
	}
	if !needed {
		return nil
	}
	m := g.eventStreamMethod()
	if m == nil {
		return fmt.Errorf("%s needs a streaming method in this package with %s", progressOption, eventStreamOption)
	}
	field := func(in *protogen.Message, role protoreflect.Name) *protogen.Field {
		return fieldOf(in, protoreflect.Name(g.options.Text(m.Desc, eventStreamOption, role)))
	}
	cursor, agent, follow, position := field(m.Input, "cursor"), field(m.Input, "agent"), field(m.Input, "follow"), field(m.Output, "cursor")
	if cursor == nil || agent == nil || follow == nil || position == nil {
		return fmt.Errorf("%s of %s names a field that does not exist", eventStreamOption, m.Desc.Name())
	}
	client := []any{"c"}
	if m.Parent != s {
		client = []any{g.file.GoImportPath.Ident("New" + m.Parent.GoName + "Client"), "(conn)"}
	}
	in, out := m.Input.GoIdent, m.Output.GoIdent
	g.P(slices.Concat([]any{"watch := ", toolPackage.Ident("NewWatch"), "("}, client, []any{".", m.GoName, ","})...)
	g.P("func(q ", toolPackage.Ident("Query"), ") *", in, " {")
	g.P("return &", in, "{", cursor.GoName, ": q.Cursor, ", agent.GoName, ": q.Agent, ", follow.GoName, ": q.Follow}")
	g.P("}, (*", out, ").Get", position.GoName, ", ", textsFuncName(m), ")")
	return nil
}

// eventStreamMethod returns the method of the file's package that streams events; nil if there is none.
func (g generator) eventStreamMethod() *protogen.Method {
	for _, f := range g.plugin.Files {
		if f.GoImportPath != g.file.GoImportPath {
			continue
		}
		for _, s := range f.Services {
			for _, m := range s.Methods {
				if _, ok := g.options.Get(m.Desc, eventStreamOption); ok && m.Desc.IsStreamingServer() {
					return m
				}
			}
		}
	}
	return nil
}

// writeTexts writes a function that returns the progress texts of a message. If the message wraps a list of events that have texts,
// it returns these. Otherwise it returns the message's own text, or the message as JSON if it has no text.
func (g generator) writeTexts(m *protogen.Method) {
	g.P()
	g.P("// ", textsFuncName(m), " returns what a message of ", m.GoName, " says, for people.")
	g.P("func ", textsFuncName(m), "(m *", m.Output.GoIdent, ") []string {")
	defer g.P("}")
	if f := g.options.FieldWithRole(m.Output, "wrapped"); f != nil && f.Desc.IsList() {
		if text := g.eventText("e", f.Message); text != nil {
			g.P("var texts []string")
			g.P("for _, e := range m.Get", f.GoName, "() {")
			g.P(append(append([]any{"texts = append(texts, "}, text...), ")")...)
			g.P("}")
			g.P("return texts")
			return
		}
	}
	if text := g.eventText("m", m.Output); text != nil {
		g.P(append(append([]any{"return []string{"}, text...), "}")...)
		return
	}
	g.P("return []string{", toolPackage.Ident("JSON"), "(m)}")
}

// eventText returns the expression for the text of the message in the variable; nil if the message has no text.
func (g generator) eventText(variable string, m *protogen.Message) []any {
	text, kind := g.options.FieldWithRole(m, "words"), g.options.FieldWithRole(m, "kind")
	switch {
	case text == nil:
		return nil
	case kind == nil:
		return []any{variable, ".Get", text.GoName, "()"}
	}
	return []any{toolPackage.Ident("EventText"), "(", variable, ".Get", text.GoName, "(), ", variable, ".Get", kind.GoName, "().String())"}
}

// textsFuncName returns the name of the function that writeTexts writes.
func textsFuncName(m *protogen.Method) string {
	return lowerFirst(m.Parent.GoName) + m.GoName + "Texts"
}
