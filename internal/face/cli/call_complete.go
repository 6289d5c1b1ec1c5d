package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// completion returns the completion of a field's values: the values of its type, or the names that a list method of the
// same toolset returns.
func (c *call) completion(p *program, f *field) cobra.CompletionFunc {
	switch f.form {
	case asBool:
		return cobra.FixedCompletions([]string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp)
	case asOneOf:
		return cobra.FixedCompletions(f.values(), cobra.ShellCompDirectiveNoFileComp)
	}
	if m, list, name := c.set.names(f); m != nil && !f.isText() {
		return p.offering(func(ctx context.Context, s *session, _ []string) ([]offer, error) {
			return s.listed(ctx, m, list, name)
		})
	}
	return cobra.NoFileCompletions
}

// completeArgument completes the required fields without a flag value, one after the other.
func (c *call) completeArgument(p *program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		open := c.open()
		if len(open) == 0 || len(args) >= len(open) && !open[len(open)-1].many() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completion(p, open[min(len(args), len(open)-1)].field)(cmd, args, typed)
	}
}

// names returns the method that lists the values of a field, the list in that method's answer, and the field of the
// list's messages that contains the value. The method is nil if the proto does not name one.
func (t *toolset) names(f *field) (m *method, list, name protoreflect.FieldDescriptor) {
	path := strings.Split(shownBy(f.desc).GetListedBy(), ".")
	if len(path) != 3 {
		return nil, nil, nil
	}
	if m = t.method(path[0]); m == nil {
		return nil, nil, nil
	}
	list = m.desc.Output().Fields().ByName(protoreflect.Name(path[1]))
	return m, list, list.Message().Fields().ByName(protoreflect.Name(path[2]))
}

// listed calls the list method and returns the values in its answer, each with its title if it has one.
func (s *session) listed(ctx context.Context, m *method, list, name protoreflect.FieldDescriptor) (values []offer, err error) {
	answer := m.out.New()
	if err := s.calls.ClientConnInterface.Invoke(ctx, m.path(), m.in.New().Interface(), answer.Interface()); err != nil {
		return nil, err
	}
	items, title := answer.Get(list).List(), withRole(list.Message(), fleetv1.Shown_title)
	for i := range items.Len() {
		o := offer{name: items.Get(i).Message().Get(name).String()}
		if title != nil {
			o.about = items.Get(i).Message().Get(title).String()
		}
		values = append(values, o)
	}
	return values, nil
}
