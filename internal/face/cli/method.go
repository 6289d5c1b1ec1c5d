package cli

import (
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	fleetv1 "fleet/gen/fleet/v1"
)

// method is a method of a toolset, with the command that calls it.
type method struct {
	desc                      protoreflect.MethodDescriptor
	toolset                   *toolset
	command                   string // name of the command, without that of the toolset
	summary                   string
	about                     string // description beyond the summary
	fields                    []*field
	requestType, responseType protoreflect.MessageType
}

// path returns the gRPC path of the method.
func (m *method) path() string {
	return fmt.Sprintf("/%s/%s", m.desc.Parent().FullName(), m.desc.Name())
}

// commandLine returns the command line of the method, for example "fleet sessions send".
func (m *method) commandLine() string { return "fleet " + m.toolset.name + " " + m.command }

// toolName returns the method's name as an MCP tool. The server uses this name in messages.
func (m *method) toolName() string { return snakeCase(string(m.desc.Name())) }

// isReadOnly reports whether a call has no side effects.
func (m *method) isReadOnly() bool {
	o, _ := m.desc.Options().(*descriptorpb.MethodOptions)
	return o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}

// isTool reports whether the method is a tool of the MCP face.
func (m *method) isTool() bool {
	noTool, _ := proto.GetExtension(m.desc.Options(), fleetv1.E_NoTool).(bool)
	return !noTool
}

// isTurn reports whether the last message of the method's stream is the response and the other messages are progress.
func (m *method) isTurn() bool {
	last, _ := proto.GetExtension(m.desc.Options(), fleetv1.E_LastIsResult).(bool)
	return last && m.desc.IsStreamingServer()
}

// canFail reports whether a response, and not only an error, can say that the request failed.
func (m *method) canFail() bool {
	for f := range itemsOf(m.desc.Output().Fields()) {
		if shownOption(f).GetFailedValue() != "" {
			return true
		}
	}
	return false
}

// isDownload reports whether the method streams content instead of messages.
func (m *method) isDownload() bool {
	return m.desc.IsStreamingServer() && m.desc.Output().FullName() == "google.api.HttpBody"
}

// commandOf returns the command that the proto names for the method. If it names none, the command has the method's
// full name.
func commandOf(d protoreflect.MethodDescriptor) *fleetv1.Command {
	c, _ := proto.GetExtension(d.Options(), fleetv1.E_Command).(*fleetv1.Command)
	if c.GetName() == "" {
		return &fleetv1.Command{Name: flagNameOf(snakeCase(string(d.Name())))}
	}
	return c
}

// longName returns the method's full name as the name of a command: "list-agent-sessions".
func (m *method) longName() string { return flagNameOf(m.toolName()) }

// snakeCase converts a proto name to snake_case: AgentStart becomes agent_start.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// arguments returns the names of the method's arguments for the usage line.
func (m *method) arguments() (names []string) {
	required := m.requiredFields()
	for i, f := range required {
		name := f.argumentName()
		if f.isRepeatable() && i == len(required)-1 {
			name += "..."
		}
		names = append(names, name)
	}
	return names
}

// requiredFields returns the required fields, which are also the arguments of the command.
func (m *method) requiredFields() (list []*field) {
	for _, f := range m.fields {
		if f.required {
			list = append(list, f)
		}
	}
	return list
}
