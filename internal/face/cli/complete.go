package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fleetv1 "fleet/gen/fleet/v1"
)

// completion is one completion: a name and its description.
type completion struct{ name, about string }

// completionLister lists completions. args are the arguments before the one that is completed.
type completionLister func(ctx context.Context, s *session, args []string) ([]completion, error)

// argumentCompletion returns the completion of arguments that have the name in a usage line, for example AGENT. Unless
// repeatable is set, it completes only the first argument. It returns nil if there are no completions for the name.
func (p *program) argumentCompletion(name string, repeatable bool) cobra.CompletionFunc {
	list := map[string]completionLister{"AGENT": completeAgents, "PROJECT": completeProjects, "ROLE": completeRoles, "ID": completeTasks, "TASK": completeTasks}[name]
	if list == nil {
		return nil
	}
	complete := p.completionFrom(list)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !repeatable {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}

// completionFrom returns a completion that offers the names from list that begin with the typed text and are not arguments
// already. It offers nothing if the server does not answer in time, or if it would have to start an embedded server or to renew
// the token of a sign-in, which a shell has no time for.
func (p *program) completionFrom(list completionLister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const noFiles = cobra.ShellCompDirectiveNoFileComp
		target, err := p.target()
		if err != nil || target.Embedded {
			return nil, noFiles
		}
		if target.Login != nil {
			if target.Token = target.Login.Current(); target.Token == "" {
				return nil, noFiles
			}
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, p.deps.completionTimeout)
		defer cancel()
		connection, closeConn, err := p.deps.Dial(ctx, target)
		if err != nil {
			return nil, noFiles
		}
		defer closeConn() //nolint:errcheck // nothing was written
		s := &session{program: p, cmd: cmd, target: target}
		s.connect(&conn{ClientConnInterface: connection, onOutage: func() {}, onReconnect: func() {}})
		all, _ := list(ctx, s, args) // a shell has no place for the error
		for _, c := range all {
			if strings.HasPrefix(strings.ToLower(c.name), strings.ToLower(typed)) && !slices.Contains(args, c.name) {
				names = append(names, cobra.CompletionWithDesc(printable(c.name), printable(strings.TrimSpace(c.about))))
			}
		}
		return names, noFiles
	}
}

// completionsOf returns the completions for the items of a list. It leaves out an item for which convert returns no name.
func completionsOf[T any](list []T, convert func(T) completion) (all []completion) {
	for _, x := range list {
		if c := convert(x); c.name != "" {
			all = append(all, c)
		}
	}
	return all
}

// completeAgents offers the names of the agents, with the owner if several of the agents have the name.
func completeAgents(ctx context.Context, s *session, _ []string) ([]completion, error) {
	resp, err := s.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
	count := map[string]int{}
	for _, a := range resp.GetAgents() {
		count[strings.ToLower(a.GetName())]++
	}
	return completionsOf(resp.GetAgents(), func(a *fleetv1.AgentSummary) completion {
		name := a.GetName()
		if count[strings.ToLower(name)] > 1 {
			name = s.ref(name, a.GetOwner())
		}
		return completion{name, a.GetStatus().String() + " " + a.GetCurrentTask().GetValue()}
	}), err
}

// completeProjects offers the names of the projects.
func completeProjects(ctx context.Context, s *session, _ []string) ([]completion, error) {
	resp, err := s.fleet.ListAgentProjects(ctx, &fleetv1.ListAgentProjectsRequest{})
	return completionsOf(resp.GetProjects(), func(p *fleetv1.Project) completion { return completion{p.GetName(), p.GetDescription()} }), err
}

// completeRoles offers the roles of the project that --project names. For a command without this flag, it offers the roles of the
// project of the agent in the first argument.
func completeRoles(ctx context.Context, s *session, args []string) ([]completion, error) {
	project := ""
	if f := s.cmd.Flags().Lookup("project"); f != nil {
		project = f.Value.String()
	} else if len(args) > 0 {
		resp, err := s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: args[0]})
		if err != nil {
			return nil, err
		}
		project = resp.GetAgent().GetProject()
	}
	if project == "" {
		return nil, nil
	}
	resp, err := s.fleet.ListAgentRoles(ctx, &fleetv1.ListAgentRolesRequest{Project: project})
	return completionsOf(resp.GetRoles(), func(r *fleetv1.Role) completion { return completion{r.GetName(), r.GetDescription()} }), err
}

// completeTasks offers the ids of the newest tasks.
func completeTasks(ctx context.Context, s *session, _ []string) ([]completion, error) {
	resp, err := s.fleet.ListTasks(ctx, &fleetv1.ListTasksRequest{PageSize: proto.Int32(80)})
	return completionsOf(resp.GetTasks(), func(t *fleetv1.Task) completion {
		return completion{t.GetId(), t.GetAgentName() + " " + t.GetStatus().String() + " " + t.GetSummary()}
	}), err
}

// completeQuestions offers the ids of open questions. After an id, it offers the answers to a request for permission.
func completeQuestions(ctx context.Context, s *session, args []string) ([]completion, error) {
	if len(args) == 1 {
		return []completion{{name: "allow"}, {name: "deny"}}, nil
	}
	resp, err := s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{})
	return completionsOf(resp.GetQuestions(), func(q *fleetv1.Question) completion {
		return completion{q.GetId(), q.GetAgentName() + " " + questionText(q)}
	}), err
}

// completeTokens offers the names of tokens that are not revoked.
func completeTokens(ctx context.Context, s *session, _ []string) ([]completion, error) {
	resp, err := s.tokens.ListTokens(ctx, &fleetv1.ListTokensRequest{})
	return completionsOf(resp.GetTokens(), func(t *fleetv1.Token) completion {
		if t.GetRevokedAt() != nil {
			return completion{}
		}
		return completion{t.GetName(), t.GetKind().String()}
	}), err
}

// completeReplicas offers the names of servers that are not running.
func completeReplicas(ctx context.Context, s *session, _ []string) ([]completion, error) {
	resp, err := s.fleet.ListReplicas(ctx, &fleetv1.ListReplicasRequest{})
	return completionsOf(resp.GetReplicas(), func(r *fleetv1.Replica) completion {
		if r.GetState() == fleetv1.Replica_running {
			return completion{}
		}
		return completion{r.GetName(), r.GetState().String()}
	}), err
}

// completionFunc returns the completion of a field's values: the values of its type, or the names that a list method of the
// same toolset returns.
func (c *toolsetCommand) completionFunc(p *program, f *field) cobra.CompletionFunc {
	switch f.notation {
	case asBool:
		return cobra.FixedCompletions([]string{"true", "false"}, cobra.ShellCompDirectiveNoFileComp)
	case asEnum:
		return cobra.FixedCompletions(f.enumValues(), cobra.ShellCompDirectiveNoFileComp)
	}
	if m, list, name := c.toolset.lister(f); m != nil && !f.acceptsFile() {
		return p.completionFrom(func(ctx context.Context, s *session, _ []string) ([]completion, error) {
			return s.listValues(ctx, m, list, name)
		})
	}
	return cobra.NoFileCompletions
}

// inputCompletion returns the completion of the command's arguments: the required inputs that no flag has set, in order.
func (c *toolsetCommand) inputCompletion(p *program) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		unset := c.unsetInputs()
		if len(unset) == 0 || len(args) >= len(unset) && !unset[len(unset)-1].isRepeatable() {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.completionFunc(p, unset[min(len(args), len(unset)-1)].field)(cmd, args, typed)
	}
}

// lister returns the method that lists the values of a field, the list in that method's response, and the field of the
// list's messages that contains the value. The method is nil if the proto does not name one.
func (t *toolset) lister(f *field) (m *method, list, name protoreflect.FieldDescriptor) {
	path := strings.Split(shownOption(f.desc).GetListedBy(), ".")
	if len(path) != 3 {
		return nil, nil, nil
	}
	if m = t.method(path[0]); m == nil {
		return nil, nil, nil
	}
	list = m.desc.Output().Fields().ByName(protoreflect.Name(path[1]))
	return m, list, list.Message().Fields().ByName(protoreflect.Name(path[2]))
}

// listValues calls the list method and returns the values in its response, each with its title if it has one.
func (s *session) listValues(ctx context.Context, m *method, list, name protoreflect.FieldDescriptor) (values []completion, err error) {
	resp := m.responseType.New()
	if err := s.conn.ClientConnInterface.Invoke(ctx, m.path(), m.requestType.New().Interface(), resp.Interface()); err != nil {
		return nil, err
	}
	items, title := resp.Get(list).List(), fieldWithRole(list.Message(), fleetv1.Shown_title)
	for i := range items.Len() {
		c := completion{name: items.Get(i).Message().Get(name).String()}
		if title != nil {
			c.about = items.Get(i).Message().Get(title).String()
		}
		values = append(values, c)
	}
	return values, nil
}
