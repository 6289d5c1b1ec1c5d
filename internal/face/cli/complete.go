package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

// offer is one completion: a name and its description.
type offer struct{ name, about string }

// offerer lists completions. args are the arguments before the one that is completed.
type offerer func(ctx context.Context, s *session, args []string) ([]offer, error)

// complete returns the completion of arguments with the name in a usage line, for example AGENT: of the first argument, or of all
// of them. It returns nil if there are no completions for the name.
func (p *program) complete(name string, all bool) cobra.CompletionFunc {
	list := map[string]offerer{"AGENT": agentNames, "PROJECT": projectNames, "ROLE": roleNames, "ID": taskIDs, "TASK": taskIDs}[name]
	if list == nil {
		return nil
	}
	of := p.offering(list)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 && !all {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return of(cmd, args, typed)
	}
}

// offering returns a completion that offers names from list: those that begin with the typed text and are not arguments
// already. It offers nothing if the server does not answer in time, or if it would have to start an embedded server.
func (p *program) offering(list offerer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
		const noFiles = cobra.ShellCompDirectiveNoFileComp
		target, err := p.target()
		if err != nil || target.Embedded {
			return nil, noFiles
		}
		parent := cmd.Context()
		if parent == nil {
			parent = context.Background()
		}
		ctx, cancel := context.WithTimeout(parent, p.deps.completion)
		defer cancel()
		connection, closeIt, err := p.deps.Dial(ctx, target)
		if err != nil {
			return nil, noFiles
		}
		defer closeIt() //nolint:errcheck // nothing was written
		s := &session{program: p, cmd: cmd}
		s.connect(&conn{ClientConnInterface: connection, lost: func() {}, back: func() {}})
		offers, _ := list(ctx, s, args) // a shell has no place for the error
		for _, o := range offers {
			if strings.HasPrefix(strings.ToLower(o.name), strings.ToLower(typed)) && !slices.Contains(args, o.name) {
				names = append(names, cobra.CompletionWithDesc(printable(o.name), printable(strings.TrimSpace(o.about))))
			}
		}
		return names, noFiles
	}
}

// offers returns the completion for each item of a list; an item without a name has none.
func offers[T any](list []T, of func(T) offer) (all []offer) {
	for _, x := range list {
		if o := of(x); o.name != "" {
			all = append(all, o)
		}
	}
	return all
}

func agentNames(ctx context.Context, s *session, _ []string) ([]offer, error) {
	resp, err := s.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
	return offers(resp.GetAgents(), func(a *fleetv1.AgentSummary) offer {
		return offer{a.GetName(), a.GetStatus().String() + " " + a.GetCurrentTask().GetValue()}
	}), err
}

func projectNames(ctx context.Context, s *session, _ []string) ([]offer, error) {
	resp, err := s.fleet.ListAgentProjects(ctx, &fleetv1.ListAgentProjectsRequest{})
	return offers(resp.GetProjects(), func(p *fleetv1.Project) offer { return offer{p.GetName(), p.GetDescription()} }), err
}

// roleNames offers roles of the project given by --project, or of the agent's project.
func roleNames(ctx context.Context, s *session, args []string) ([]offer, error) {
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
	return offers(resp.GetRoles(), func(r *fleetv1.Role) offer { return offer{r.GetName(), r.GetDescription()} }), err
}

// taskIDs offers the ids of the newest tasks.
func taskIDs(ctx context.Context, s *session, _ []string) ([]offer, error) {
	resp, err := s.fleet.ListTasks(ctx, &fleetv1.ListTasksRequest{PageSize: proto.Int32(80)})
	return offers(resp.GetTasks(), func(t *fleetv1.Task) offer {
		return offer{t.GetId(), t.GetAgentName() + " " + t.GetStatus().String() + " " + t.GetSummary()}
	}), err
}

// questionIDs offers the ids of open questions, and then the answers to a request for permission.
func questionIDs(ctx context.Context, s *session, args []string) ([]offer, error) {
	if len(args) == 1 {
		return []offer{{name: "allow"}, {name: "deny"}}, nil
	}
	resp, err := s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{})
	return offers(resp.GetQuestions(), func(q *fleetv1.Question) offer { return offer{q.GetId(), q.GetAgentName() + " " + questionText(q)} }), err
}

// tokenNames offers the names of tokens that are not revoked.
func tokenNames(ctx context.Context, s *session, _ []string) ([]offer, error) {
	resp, err := s.tokens.ListTokens(ctx, &fleetv1.ListTokensRequest{})
	return offers(resp.GetTokens(), func(t *fleetv1.Token) offer {
		if t.GetRevokedAt() != nil {
			return offer{}
		}
		return offer{t.GetName(), t.GetKind().String()}
	}), err
}

// replicaNames offers the names of servers that are not running.
func replicaNames(ctx context.Context, s *session, _ []string) ([]offer, error) {
	resp, err := s.fleet.ListReplicas(ctx, &fleetv1.ListReplicasRequest{})
	return offers(resp.GetReplicas(), func(r *fleetv1.Replica) offer {
		if r.GetState() == fleetv1.Replica_running {
			return offer{}
		}
		return offer{r.GetName(), r.GetState().String()}
	}), err
}
