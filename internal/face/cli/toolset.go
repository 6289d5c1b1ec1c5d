package cli

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

// fleetToolset is the toolset whose commands are written by hand: "fleet agent", "fleet task" and so on.
const fleetToolset = "fleet"

// toolset is a service of the API whose commands are derived from the service's descriptor. Their texts are from the OpenAPI
// document. A new method becomes a command without further code.
type toolset struct {
	name    string
	alias   string
	service protoreflect.ServiceDescriptor
	about   string
	methods []*method
}

// messageTypes looks up the Go types of messages.
type messageTypes interface {
	FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error)
}

// toolsets returns the toolsets of the API except fleetToolset, sorted by name.
var toolsets = sync.OnceValue(func() (sets []*toolset) {
	texts := readOpenAPI()
	protoregistry.GlobalFiles.RangeFilesByPackage(fleetv1.File_fleet_v1_options_proto.Package(), func(f protoreflect.FileDescriptor) bool {
		for s := range itemsOf(f.Services()) {
			if !slices.Contains([]string{"", fleetToolset}, toolsetOf(s)) {
				sets = append(sets, deriveToolset(s, protoregistry.GlobalTypes, texts))
			}
		}
		return true
	})
	slices.SortFunc(sets, func(a, b *toolset) int { return strings.Compare(a.name, b.name) })
	return sets
})

// toolsetOf returns the name of the service's toolset, or "" if the service belongs to no toolset.
func toolsetOf(s protoreflect.ServiceDescriptor) string {
	name, _ := proto.GetExtension(s.Options(), fleetv1.E_Toolset).(string)
	return name
}

// deriveToolset derives a toolset from the descriptor of its service and the texts of the OpenAPI document. It panics if types has no Go type for
// a message, which is a bug.
func deriveToolset(s protoreflect.ServiceDescriptor, types messageTypes, texts openAPIDocument) *toolset {
	t := &toolset{name: toolsetOf(s), service: s, about: texts.serviceDescription(s)}
	t.alias, _ = proto.GetExtension(s.Options(), fleetv1.E_ToolsetAlias).(string)
	for d := range itemsOf(s.Methods()) {
		if d.IsStreamingClient() {
			continue // a command has one request
		}
		m := &method{desc: d, toolset: t, command: commandOf(d).GetName()}
		m.summary, m.about = texts.methodDescription(d)
		m.requestType, m.responseType = messageTypeOf(types, d.Input()), messageTypeOf(types, d.Output())
		m.fields = fieldsOf(m, texts)
		t.methods = append(t.methods, m)
	}
	return t
}

// messageTypeOf returns the Go type of the message. It panics if types has none.
func messageTypeOf(types messageTypes, d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := types.FindMessageByName(d.FullName())
	if err != nil {
		panic(fmt.Sprintf("cli: type of %s: %v", d.FullName(), err))
	}
	return t
}

// method returns the method with that name in the proto, or nil if there is none.
func (t *toolset) method(name string) *method {
	for _, m := range t.methods {
		if string(m.desc.Name()) == name {
			return m
		}
	}
	return nil
}
