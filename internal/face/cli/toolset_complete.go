package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// completion completes the values of a field: what its type allows, or what a list of the same toolset has under its
// name.
func (c *call) completion(p *program, f *field) cobra.CompletionFunc {
	switch f.form {
	case asBool:
		return cobra.FixedCompletions([]string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp)
	case asOneOf:
		return cobra.FixedCompletions(f.values(), cobra.ShellCompDirectiveNoFileComp)
	}
	if m, list, name := c.set.names(f); m != nil && !f.isText() {
		return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return p.ask(cmd, func(ctx context.Context, s *session) []cobra.Completion {
				return s.listed(ctx, m, list, name, typed, args)
			})
		}
	}
	return cobra.NoFileCompletions
}

// completeArgument completes the required fields that no flag gave, one after the other.
func (c *call) completeArgument(p *program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		open := c.open()
		if len(open) == 0 || len(args) >= len(open) && !open[len(open)-1].many() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completion(p, open[min(len(args), len(open)-1)].field)(cmd, args, typed)
	}
}

// names finds where the values of a field are listed: the method, its list, and the field of the listed messages. That
// has the name of the field, or is called name in a list of what the field names: agent_name is the name of one of the
// agents, or of what the toolset is about.
func (t *toolset) names(f *field) (m *method, list, name protoreflect.FieldDescriptor) {
	if f.form != asWords {
		return nil, nil, nil
	}
	field := f.desc.Name()
	m, list = t.list(func(list protoreflect.FieldDescriptor) bool { return list.Message().Fields().ByName(field) != nil })
	if m != nil && strings.HasSuffix(string(field), "_id") {
		return m, list, list.Message().Fields().ByName(field)
	}
	noun := strings.TrimSuffix(string(field), "_name")
	m, list = t.list(func(list protoreflect.FieldDescriptor) bool {
		named := list.Message().Fields().ByName("name")
		return named != nil && (singular(string(list.Name())) == noun || string(list.Name()) == t.name && noun == "agent")
	})
	if m == nil {
		return nil, nil, nil
	}
	return m, list, list.Message().Fields().ByName("name")
}

// listed are the values of a field in a list that the server has.
func (s *session) listed(ctx context.Context, m *method, list, name protoreflect.FieldDescriptor, typed string, used []string) (names []cobra.Completion) {
	answer := m.out.New()
	if err := s.calls.ClientConnInterface.Invoke(ctx, m.path(), m.in.New().Interface(), answer.Interface()); err != nil {
		return nil
	}
	items := answer.Get(list).List()
	for i := range items.Len() {
		item := items.Get(i).Message()
		names = choice(names, item.Get(name).String(), firstText(item, name), typed, used)
	}
	return names
}

// firstText is the first text of a message that says something, other than the field.
func firstText(m protoreflect.Message, but protoreflect.FieldDescriptor) string {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); f != but && f.Kind() == protoreflect.StringKind && f.Cardinality() != protoreflect.Repeated && m.Get(f).String() != "" {
			return m.Get(f).String()
		}
	}
	return ""
}
