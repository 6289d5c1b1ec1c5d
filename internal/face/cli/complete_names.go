package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) completeAgents() cobra.CompletionFunc {
	return p.offering(func(ctx context.Context, s *session, _ []string) ([]offer, error) {
		resp, err := s.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		return offers(resp.GetAgents(), func(a *fleetv1.AgentSummary) offer {
			return offer{a.GetName(), a.GetStatus().String() + " " + a.GetCurrentTask().GetValue()}
		}), err
	})
}

// completeAgent completes an agent as the first argument.
func (p *program) completeAgent() cobra.CompletionFunc { return first(p.completeAgents()) }

func (p *program) completeProjects() cobra.CompletionFunc {
	return p.offering(func(ctx context.Context, s *session, _ []string) ([]offer, error) {
		resp, err := s.fleet.ListAgentProjects(ctx, &fleetv1.ListAgentProjectsRequest{})
		return offers(resp.GetProjects(), func(p *fleetv1.Project) offer { return offer{p.GetName(), p.GetDescription()} }), err
	})
}

// completeRoles completes roles of the project given by --project, or of the agent's project.
func (p *program) completeRoles() cobra.CompletionFunc {
	return p.offering(func(ctx context.Context, s *session, args []string) ([]offer, error) {
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
	})
}

// completeTasks completes the ids of the newest tasks.
func (p *program) completeTasks() cobra.CompletionFunc {
	return p.offering(func(ctx context.Context, s *session, _ []string) ([]offer, error) {
		resp, err := s.fleet.ListTasks(ctx, &fleetv1.ListTasksRequest{PageSize: proto.Int32(80)})
		return offers(resp.GetTasks(), func(t *fleetv1.Task) offer {
			return offer{t.GetId(), t.GetAgentName() + " " + t.GetStatus().String() + " " + t.GetSummary()}
		}), err
	})
}

// completeAnswer completes the id of an open question, and then an answer.
func (p *program) completeAnswer() cobra.CompletionFunc {
	ids := p.offering(func(ctx context.Context, s *session, _ []string) ([]offer, error) {
		resp, err := s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{})
		return offers(resp.GetQuestions(), func(q *fleetv1.Question) offer { return offer{q.GetId(), q.GetAgentName() + " " + askedOf(q)} }), err
	})
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 1 {
			return []cobra.Completion{"allow", "deny"}, cobra.ShellCompDirectiveNoFileComp
		}
		return ids(cmd, args, typed)
	}
}

// completeTokens completes the names of tokens that are not revoked.
func (p *program) completeTokens() cobra.CompletionFunc {
	return p.offering(func(ctx context.Context, s *session, _ []string) (names []offer, err error) {
		resp, err := s.tokens.ListTokens(ctx, &fleetv1.ListTokensRequest{})
		for _, t := range resp.GetTokens() {
			if t.GetRevokedAt() == nil {
				names = append(names, offer{t.GetName(), t.GetKind().String()})
			}
		}
		return names, err
	})
}

// completeReplicas completes the names of servers that are not running.
func (p *program) completeReplicas() cobra.CompletionFunc {
	return p.offering(func(ctx context.Context, s *session, _ []string) (names []offer, err error) {
		resp, err := s.fleet.ListReplicas(ctx, &fleetv1.ListReplicasRequest{})
		for _, r := range resp.GetReplicas() {
			if r.GetState() != fleetv1.Replica_running {
				names = append(names, offer{r.GetName(), r.GetState().String()})
			}
		}
		return names, err
	})
}
