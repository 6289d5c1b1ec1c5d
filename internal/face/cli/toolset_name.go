package cli

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// commandOf returns how the command line calls the method; its full name if the proto does not say.
func commandOf(d protoreflect.MethodDescriptor) *fleetv1.Command {
	c, _ := proto.GetExtension(d.Options(), fleetv1.E_Command).(*fleetv1.Command)
	if c.GetName() == "" {
		return &fleetv1.Command{Name: strings.ReplaceAll(snake(string(d.Name())), "_", "-")}
	}
	return c
}

// whole returns the full name as a command: "list-agent-sessions".
func (m *method) whole() string { return strings.ReplaceAll(m.tool(), "_", "-") }

// singular returns the singular of an API noun: agents becomes agent, capabilities capability. "status" and "process"
// are singular.
func singular(word string) string {
	switch {
	case strings.HasSuffix(word, "ss"), strings.HasSuffix(word, "us"):
		return word
	case strings.HasSuffix(word, "ies"):
		return strings.TrimSuffix(word, "ies") + "y"
	}
	return strings.TrimSuffix(word, "s")
}

// snake converts a proto name to snake_case: AgentStart becomes agent_start.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
