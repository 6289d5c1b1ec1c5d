package main

import (
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// watchMethod is the method whose events are the progress of other methods.
const watchMethod = protoreflect.Name("WatchFleet")

// lastOf returns the argument that detects the last message of a stream, which is the method's result.
func lastOf(m *protogen.Method) ([]any, error) {
	kind := fieldOf(m.Output, "type")
	if !m.Desc.IsStreamingServer() || kind == nil || kind.Enum == nil {
		return nil, fmt.Errorf("%s is for a method that streams messages with an enum field `type`", lastIsResult)
	}
	for _, v := range kind.Enum.Values {
		if v.Desc.Name() == "complete" {
			return []any{", func(m *", m.Output.GoIdent, ") bool { return m.Get", kind.GoName, "() == ", v.GoIdent, " }"}, nil
		}
	}
	return nil, fmt.Errorf("%s needs a value `complete` in %s", lastIsResult, kind.Enum.Desc.Name())
}

// watch writes the variable that the tools with progress share, if the service has any.
func (g generator) watch(s *protogen.Service) error {
	needed := false
	for _, m := range s.Methods {
		v, ok := g.options.get(m.Desc, progressField)
		needed = needed || ok && v.String() != ""
	}
	if !needed {
		return nil
	}
	owner, m := g.findWatch()
	if m == nil {
		return fmt.Errorf("%s needs a streaming method %s(cursor, agent_name, follow) in this package, whose answer has a cursor", progressField, watchMethod)
	}
	client := "c"
	if owner != s {
		client = "New" + owner.GoName + "Client(conn)"
	}
	in, out := m.Input.GoIdent, m.Output.GoIdent
	g.P("watch := ", toolPackage.Ident("Watcher"), "(", client, ".", m.GoName, ",")
	g.P("func(q ", toolPackage.Ident("Query"), ") *", in, " {")
	g.P("return &", in, "{Cursor: q.Cursor, AgentName: q.Agent, Follow: q.Follow}")
	g.P("}, (*", out, ").GetCursor, ", textsOf(m), ")")
	return nil
}

// findWatch returns the watch method of the file's package, and its service.
func (g generator) findWatch() (*protogen.Service, *protogen.Method) {
	for _, f := range g.plugin.Files {
		if f.GoImportPath != g.file.GoImportPath {
			continue
		}
		for _, s := range f.Services {
			for _, m := range s.Methods {
				if m.Desc.Name() == watchMethod && m.Desc.IsStreamingServer() &&
					fieldOf(m.Input, "cursor") != nil && fieldOf(m.Input, "agent_name") != nil && fieldOf(m.Input, "follow") != nil &&
					fieldOf(m.Output, "cursor") != nil {
					return s, m
				}
			}
		}
	}
	return nil, nil
}

// texts writes the function that extracts the progress texts of a message: the text of each event in it, its own text,
// or the message as JSON.
func (g generator) texts(m *protogen.Method) {
	g.P()
	g.P("// ", textsOf(m), " returns what a message of ", m.GoName, " says, for people.")
	g.P("func ", textsOf(m), "(m *", m.Output.GoIdent, ") []string {")
	defer g.P("}")
	for _, f := range m.Output.Fields {
		if f.Desc.IsList() && f.Message != nil {
			if words := g.words("e", f.Message); words != nil {
				g.P("var texts []string")
				g.P("for _, e := range m.Get", f.GoName, "() {")
				g.P(append(append([]any{"texts = append(texts, "}, words...), ")")...)
				g.P("}")
				g.P("return texts")
				return
			}
		}
	}
	if words := g.words("m", m.Output); words != nil {
		g.P(append(append([]any{"return []string{"}, words...), "}")...)
		return
	}
	g.P("return []string{", toolPackage.Ident("JSON"), "(m)}")
}

// words returns the expression for a message's text; nil if it has none.
func (g generator) words(variable string, m *protogen.Message) []any {
	text := fieldOf(m, "text")
	if text == nil || text.Desc.Kind() != protoreflect.StringKind || text.Desc.IsList() {
		return nil
	}
	expression := []any{variable, ".Get", text.GoName, "()"}
	if kind := fieldOf(m, "type"); kind != nil && kind.Enum != nil && !kind.Desc.IsList() {
		return append(append([]any{toolPackage.Ident("Words"), "("}, expression...), ", ", variable, ".Get", kind.GoName, "().String())")
	}
	return expression
}

func textsOf(m *protogen.Method) string { return lowerFirst(m.Parent.GoName) + m.GoName + "Texts" }
