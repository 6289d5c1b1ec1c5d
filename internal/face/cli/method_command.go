package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// methodCommand makes the command call a method of FleetService or TokenService. The first arguments of the command are the
// required texts of the request, in their order. If no text is required, the only argument is the field with the argument's name in
// the usage line; AGENT is the field agent_name. The argument ID|AGENT is the id of a task, or an agent, which stands for its newest
// task. Flags of the command, and its PreRun or PreRunE, set the other fields. show prints the response for people. Messages name the
// command instead of the method's tool.
func methodCommand[C any, Q, A proto.Message](p *program, cmd *cobra.Command, method func(C, context.Context, Q, ...grpc.CallOption) (A, error), req Q, show func(s *session, resp A)) *cobra.Command {
	m := req.ProtoReflect()
	required := requiredTextFields(m.Descriptor())
	takesAgent, hasRequestID := strings.Contains(cmd.Use, "ID|AGENT"), fieldWithRole(m.Descriptor(), fleetv1.Shown_request_id) != nil
	cmd.RunE = p.action(func(ctx context.Context, s *session, args []string) error {
		fields := required
		if names := argumentsOf(cmd); len(required) == 0 && len(names) > 0 {
			fields = []protoreflect.FieldDescriptor{argumentField(m.Descriptor(), names[0])}
		}
		for i, f := range fields[:min(len(fields), len(args))] {
			m.Set(f, protoreflect.ValueOfString(args[i]))
		}
		client, ok := any(s.fleet).(C)
		if !ok {
			client = any(s.tokens).(C)
		}
		call := func() error {
			resp, err := method(client, ctx, req)
			if o, ok := any(resp).(observedResponse); ok && err == nil {
				s.reportStale(o)
			}
			return s.print(resp, err, func() { show(s, resp) })
		}
		callFor := func(id string) error {
			m.Set(fields[0], protoreflect.ValueOfString(id))
			return call()
		}
		switch {
		case !takesAgent:
			return call()
		case !hasRequestID:
			return s.withTask(ctx, args[0], callFor)
		}
		id, err := s.taskID(ctx, args[0])
		if err != nil {
			return err
		}
		return callFor(id)
	})
	if hasRequestID {
		addRequestID(cmd, req)
	}
	var names []string
	for _, f := range required {
		names = append(names, string(f.Name()))
	}
	return callsTool(cmd, snakeCase(strings.TrimSuffix(string(m.Descriptor().Name()), "Request")), names...)
}

// argumentField returns the field of the request that an argument such as "[AGENT]" in the usage line sets.
func argumentField(d protoreflect.MessageDescriptor, argument string) protoreflect.FieldDescriptor {
	name := strings.ToLower(strings.Trim(argument, "[]"))
	if name == "agent" {
		name = "agent_name"
	}
	return d.Fields().ByName(protoreflect.Name(name))
}

// requiredTextFields returns the required string fields of a request.
func requiredTextFields(d protoreflect.MessageDescriptor) (list []protoreflect.FieldDescriptor) {
	for f := range itemsOf(d.Fields()) {
		if f.Kind() == protoreflect.StringKind && slices.Contains(behavioursOf(f), annotations.FieldBehavior_REQUIRED) {
			list = append(list, f)
		}
	}
	return list
}

func behavioursOf(f protoreflect.FieldDescriptor) []annotations.FieldBehavior {
	all, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return all
}

// printMessage prints the message of a response, or with -q the name that the first argument gave.
func printMessage[A interface{ GetMessage() string }](s *session, resp A) {
	s.printResult(resp.GetMessage(), s.cmd.Flags().Arg(0))
}
