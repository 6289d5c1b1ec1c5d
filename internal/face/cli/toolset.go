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

// toolset is a service of the API with derived commands. They come from its descriptor, and their texts from the
// OpenAPI document. A new method becomes a command without further code.
type toolset struct {
	name    string
	service protoreflect.ServiceDescriptor
	about   string
	methods []*method
}

// method is a method of a toolset, with the command that calls it.
type method struct {
	desc    protoreflect.MethodDescriptor
	set     *toolset
	command string // name of the command, without the toolset's
	summary string
	about   string // description beyond the summary
	fields  []*field
	in, out protoreflect.MessageType
}

// types looks up the Go types of messages.
type types interface {
	FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error)
}

// toolsets are the toolsets of the API, by name.
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

// toolsetOf returns the service's toolset; empty if it has none.
func toolsetOf(s protoreflect.ServiceDescriptor) string {
	name, _ := proto.GetExtension(s.Options(), fleetv1.E_Toolset).(string)
	return name
}

// newToolset derives the commands of a service. It panics if a message has no Go type, since the program was then built
// wrong.
func newToolset(s protoreflect.ServiceDescriptor, all types, texts manual) *toolset {
	t := &toolset{name: toolsetOf(s), service: s, about: texts.service(s)}
	for i := range s.Methods().Len() {
		d := s.Methods().Get(i)
		if d.IsStreamingClient() {
			continue // a command has one request
		}
		m := &method{desc: d, set: t, command: commandOf(d).GetName()}
		m.summary, m.about = texts.method(d)
		m.in, m.out = typeOf(all, d.Input()), typeOf(all, d.Output())
		m.fields = fieldsOf(m, texts)
		t.methods = append(t.methods, m)
	}
	return t
}

func typeOf(all types, d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := all.FindMessageByName(d.FullName())
	if err != nil {
		panic(fmt.Sprintf("cli: type of %s: %v", d.FullName(), err))
	}
	return t
}

// path returns the gRPC path of the method.
func (m *method) path() string {
	return fmt.Sprintf("/%s/%s", m.desc.Parent().FullName(), m.desc.Name())
}

// line returns the command line of the method, for example "fleet sessions send".
func (m *method) line() string { return "fleet " + m.set.name + " " + m.command }

// tool returns the method's name as an MCP tool, which server messages use.
func (m *method) tool() string { return snake(string(m.desc.Name())) }

// reads reports whether a call has no side effects.
func (m *method) reads() bool {
	o, _ := m.desc.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// isTool reports whether the method is a tool of the MCP face.
func (m *method) isTool() bool {
	no, _ := proto.GetExtension(m.desc.Options(), fleetv1.E_NoTool).(bool)
	return !no
}

// isTurn reports whether the last message of the method's stream is its answer and the others are progress.
func (m *method) isTurn() bool {
	last, _ := proto.GetExtension(m.desc.Options(), fleetv1.E_LastIsResult).(bool)
	return last && m.desc.IsStreamingServer()
}

// isDownload reports whether the method streams content instead of messages.
func (m *method) isDownload() bool {
	return m.desc.IsStreamingServer() && m.desc.Output().FullName() == "google.api.HttpBody"
}

// inPath reports whether the field is in the path of the method's REST call, and inBody whether it is in the body.
func (m *method) inPath(f protoreflect.FieldDescriptor) bool {
	_, path, _ := binding(m.desc)
	return strings.Contains(path, "{"+string(f.Name())+"}") || strings.Contains(path, "{"+string(f.Name())+"=")
}

func (m *method) inBody(f protoreflect.FieldDescriptor) bool {
	_, _, body := binding(m.desc)
	return body && !m.inPath(f)
}

// binding returns the method's REST binding.
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

// method returns the method of the proto name; nil if there is none.
func (t *toolset) method(name string) *method {
	for _, m := range t.methods {
		if string(m.desc.Name()) == name {
			return m
		}
	}
	return nil
}

// shownBy returns what the proto says about showing the field; the zero value if it says nothing.
func shownBy(f protoreflect.FieldDescriptor) *fleetv1.Shown {
	s, _ := proto.GetExtension(f.Options(), fleetv1.E_Shown).(*fleetv1.Shown)
	return s
}
