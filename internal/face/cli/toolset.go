package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "fleet/gen/fleet/v1"
)

// handMade is the toolset whose commands are written by hand: "fleet agent", "fleet task" and so on.
const handMade = "fleet"

// toolset is a service of the API whose commands are derived: from its descriptor, and for the words from the OpenAPI
// document. A method that is added to it is a command with no line of code.
type toolset struct {
	name    string
	service protoreflect.ServiceDescriptor
	about   string
	methods []*method
}

// method is a method of a toolset, and the command that calls it.
type method struct {
	desc    protoreflect.MethodDescriptor
	set     *toolset
	command string // the name of the command, without the toolset's
	summary string
	about   string // what there is to know beyond the summary
	fields  []*field
	in, out protoreflect.MessageType
}

// types finds the Go types of messages.
type types interface {
	FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error)
}

// toolsets are those of this program's API, by name.
var toolsets = sync.OnceValue(func() (sets []*toolset) {
	texts := readManual()
	protoregistry.GlobalFiles.RangeFilesByPackage(fleetv1.File_fleet_v1_options_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			if s := f.Services().Get(i); !slices.Contains([]string{"", handMade}, toolsetOf(s)) {
				sets = append(sets, newToolset(s, protoregistry.GlobalTypes, texts))
			}
		}
		return true
	})
	slices.SortFunc(sets, func(a, b *toolset) int { return strings.Compare(a.name, b.name) })
	return sets
})

// toolsetOf is the name of the toolset that the service is, empty when it is none.
func toolsetOf(s protoreflect.ServiceDescriptor) string {
	name, _ := proto.GetExtension(s.Options(), fleetv1.E_Toolset).(string)
	return name
}

// newToolset derives the toolset of a service. It panics when a message has no type: then the program was built wrong.
func newToolset(s protoreflect.ServiceDescriptor, all types, texts manual) *toolset {
	t := &toolset{name: toolsetOf(s), service: s, about: texts.service(s)}
	for i := range s.Methods().Len() {
		d := s.Methods().Get(i)
		if d.IsStreamingClient() {
			continue // a command has one request
		}
		m := &method{desc: d, set: t}
		m.summary, m.about = texts.method(d)
		m.in, m.out = typeOf(all, d.Input()), typeOf(all, d.Output())
		m.fields = fieldsOf(m, texts)
		t.methods = append(t.methods, m)
	}
	t.nameCommands()
	return t
}

func typeOf(all types, d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := all.FindMessageByName(d.FullName())
	if err != nil {
		panic(fmt.Sprintf("cli: type of %s: %v", d.FullName(), err))
	}
	return t
}

// path is the name of the method in gRPC.
func (m *method) path() string {
	return fmt.Sprintf("/%s/%s", m.desc.Parent().FullName(), m.desc.Name())
}

// line is how the command is called: "fleet sessions send".
func (m *method) line() string { return "fleet " + m.set.name + " " + m.command }

// tool is the name that the method has as an MCP tool, and in messages of the server.
func (m *method) tool() string { return snake(string(m.desc.Name())) }

// reads says whether a call changes nothing.
func (m *method) reads() bool {
	o, _ := m.desc.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// isTool says whether the method is a tool of the MCP face.
func (m *method) isTool() bool {
	no, _ := proto.GetExtension(m.desc.Options(), fleetv1.E_NoTool).(bool)
	return !no
}

// isTurn says whether the last message of the method's stream is its answer, and those before tell how it comes along.
func (m *method) isTurn() bool {
	last, _ := proto.GetExtension(m.desc.Options(), fleetv1.E_LastIsResult).(bool)
	return last && m.desc.IsStreamingServer()
}

// isDownload says whether the method streams content, not messages.
func (m *method) isDownload() bool {
	return m.desc.IsStreamingServer() && m.desc.Output().FullName() == "google.api.HttpBody"
}

// inPath says whether the field is in the path of the method's REST call, and inBody whether it is in its body.
func (m *method) inPath(f protoreflect.FieldDescriptor) bool {
	_, path, _ := binding(m.desc)
	return strings.Contains(path, "{"+string(f.Name())+"}") || strings.Contains(path, "{"+string(f.Name())+"=")
}

func (m *method) inBody(f protoreflect.FieldDescriptor) bool {
	_, _, body := binding(m.desc)
	return body && !m.inPath(f)
}

// binding is how the method is called over REST.
func binding(m protoreflect.MethodDescriptor) (verb, path string, body bool) {
	rule, _ := proto.GetExtension(m.Options(), annotations.E_Http).(*annotations.HttpRule)
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		verb, path = "get", p.Get
	case *annotations.HttpRule_Post:
		verb, path = "post", p.Post
	case *annotations.HttpRule_Put:
		verb, path = "put", p.Put
	case *annotations.HttpRule_Patch:
		verb, path = "patch", p.Patch
	case *annotations.HttpRule_Delete:
		verb, path = "delete", p.Delete
	}
	return verb, path, rule.GetBody() != ""
}

// list returns the method that lists what a name may be: one that changes nothing, wants nothing, and answers with a
// list of messages. name says which field of them is meant; the method is nil when there is none.
func (t *toolset) list(fits func(list protoreflect.FieldDescriptor) bool) (*method, protoreflect.FieldDescriptor) {
	for _, m := range t.methods {
		if !m.reads() || m.desc.IsStreamingServer() || slices.ContainsFunc(m.fields, func(f *field) bool { return f.required }) {
			continue
		}
		fields := m.desc.Output().Fields()
		for i := range fields.Len() {
			if f := fields.Get(i); f.IsList() && f.Message() != nil && fits(f) {
				return m, f
			}
		}
	}
	return nil, nil
}
