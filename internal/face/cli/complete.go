package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

// completionTime limits how long a shell waits for completions.
const completionTime = 1500 * time.Millisecond

// ask gets names from the server for completion. It returns nothing if the server does not answer in time, and does not
// start an embedded server.
func (p *program) ask(cmd *cobra.Command, question func(ctx context.Context, s *session) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	target, err := p.target()
	if err != nil || target.Embedded {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completionTime)
	defer cancel()
	connection, closeIt, err := p.deps.Dial(ctx, target)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer closeIt() //nolint:errcheck // nothing was written
	s := &session{
		program: p, cmd: cmd, calls: &conn{ClientConnInterface: connection},
		fleet: fleetv1.NewFleetServiceClient(connection), tokens: fleetv1.NewTokenServiceClient(connection),
	}
	return question(ctx, s), cobra.ShellCompDirectiveNoFileComp
}

// first restricts a completion to the first argument.
func first(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, toComplete)
	}
}

// choice is a completion with a description. It is offered if it matches what was typed and is not typed already.
func choice(list []cobra.Completion, name, description, typed string, used []string) []cobra.Completion {
	if !strings.HasPrefix(strings.ToLower(name), strings.ToLower(typed)) || slices.Contains(used, name) {
		return list
	}
	return append(list, cobra.CompletionWithDesc(printable(name), printable(description)))
}

// completeAgents completes agent names, each only once.
func (p *program) completeAgents(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.ask(cmd, func(ctx context.Context, s *session) (names []cobra.Completion) {
		resp, err := s.fleet.ListAgents(ctx, &fleetv1.ListAgentsRequest{})
		if err != nil {
			return nil
		}
		for _, a := range resp.GetAgents() {
			names = choice(names, a.GetName(), strings.TrimSpace(a.GetStatus().String()+" "+a.GetCurrentTask().GetValue()), typed, args)
		}
		return names
	})
}

// completeAgent completes an agent name as the first argument.
func (p *program) completeAgent(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return first(p.completeAgents)(cmd, args, typed)
}

// completeAgentFlag completes an agent name as the value of a flag.
func (p *program) completeAgentFlag(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeAgents(cmd, nil, typed)
}

func (p *program) completeProjects(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.ask(cmd, func(ctx context.Context, s *session) (names []cobra.Completion) {
		resp, err := s.fleet.ListAgentProjects(ctx, &fleetv1.ListAgentProjectsRequest{})
		if err != nil {
			return nil
		}
		for _, p := range resp.GetProjects() {
			names = choice(names, p.GetName(), p.GetDescription(), typed, nil)
		}
		return names
	})
}

// completeRoles completes roles of the project given by --project, or of the agent's project.
func (p *program) completeRoles(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.ask(cmd, func(ctx context.Context, s *session) (names []cobra.Completion) {
		project := ""
		if f := cmd.Flags().Lookup("project"); f != nil {
			project = f.Value.String()
		} else if len(args) > 0 {
			if resp, err := s.fleet.ShowAgent(ctx, &fleetv1.ShowAgentRequest{AgentName: args[0]}); err == nil {
				project = resp.GetAgent().GetProject()
			}
		}
		if project == "" {
			return nil
		}
		resp, err := s.fleet.ListAgentRoles(ctx, &fleetv1.ListAgentRolesRequest{Project: project})
		if err != nil {
			return nil
		}
		for _, r := range resp.GetRoles() {
			names = choice(names, r.GetName(), r.GetDescription(), typed, nil)
		}
		return names
	})
}

// completeTasks completes the ids of the newest tasks.
func (p *program) completeTasks(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.ask(cmd, func(ctx context.Context, s *session) (ids []cobra.Completion) {
		size := int32(80)
		resp, err := s.fleet.ListTasks(ctx, &fleetv1.ListTasksRequest{PageSize: &size})
		if err != nil {
			return nil
		}
		for _, t := range resp.GetTasks() {
			ids = choice(ids, t.GetId(), t.GetAgentName()+" "+t.GetStatus().String()+" "+t.GetSummary(), typed, args)
		}
		return ids
	})
}

func (p *program) completeQuestions(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return []cobra.Completion{"allow", "deny"}, cobra.ShellCompDirectiveNoFileComp
	}
	return p.ask(cmd, func(ctx context.Context, s *session) (ids []cobra.Completion) {
		resp, err := s.fleet.ListQuestions(ctx, &fleetv1.ListQuestionsRequest{})
		if err != nil {
			return nil
		}
		for _, q := range resp.GetQuestions() {
			ids = choice(ids, q.GetId(), q.GetAgentName()+" "+askedOf(q), typed, args)
		}
		return ids
	})
}

func (p *program) completeTokens(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.ask(cmd, func(ctx context.Context, s *session) (names []cobra.Completion) {
		resp, err := s.tokens.ListTokens(ctx, &fleetv1.ListTokensRequest{})
		if err != nil {
			return nil
		}
		for _, t := range resp.GetTokens() {
			if t.GetRevokedAt() == nil {
				names = choice(names, t.GetName(), t.GetKind().String(), typed, nil)
			}
		}
		return names
	})
}
