package service_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/service"
	"fleet/internal/service/servicetest"
)

// TestProjectsOfGroups checks that a project of a group does not exist for others: every call fails with the same error
// as for an unknown project.
func TestProjectsOfGroups(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{Projects: []fake.Project{
		{Project: fleet.Project{Name: "Setup"}}, {Project: fleet.Project{Name: "Payroll", Groups: []string{"finance", "audit"}}},
	}}, nil)
	names := func(ctx context.Context) (names []string) {
		projects, _, err := h.ListProjects(ctx)
		require.NoError(t, err)
		for _, p := range projects {
			names = append(names, p.Name)
		}
		return names
	}
	create := func(ctx context.Context, project string) error {
		_, _, err := h.CreateAgent(ctx, service.CreateAgentRequest{Name: "papi", Project: project, Spec: "x"})
		return err
	}
	agent := fleet.Principal{Name: "carol", Scope: fleet.ScopeRun, Groups: []string{"audit"}, AgentUID: "u"}
	for who, ctx := range map[string]context.Context{
		"in another group": member(t.Context(), "bob", "sales"), "in none": member(t.Context(), "finance"), "an agent": fleet.WithPrincipal(t.Context(), agent),
	} {
		require.Equal(t, []string{"Setup"}, names(ctx), who)
		for what, call := range map[string]func(project string) error{
			"create": func(project string) error { return create(ctx, project) },
			"roles":  func(project string) error { _, err := h.ListRoles(ctx, project); return err },
			"agents": func(project string) error {
				_, err := h.ListAgents(ctx, fleet.ListAgentsRequest{Project: project})
				return err
			},
			"tasks": func(project string) error {
				_, err := h.ListTasks(ctx, service.ListTasksRequest{Project: project})
				return err
			},
			"launch": func(project string) error {
				_, err := h.Launch(ctx, service.LaunchRequest{Method: "AgentStart", Toolset: fleet.ToolsetLifecycle, Project: project, Spec: "x"})
				return err
			},
		} {
			hiddenErr, unknownErr := call("Payroll"), call("Nowhere")
			require.Equal(t, fleet.ReasonProjectNotFound, fleet.ReasonOf(hiddenErr), "%s by %s", what, who)
			require.Equal(t, unknownErr.Error(), strings.ReplaceAll(hiddenErr.Error(), "Payroll", "Nowhere"), "%s by %s", what, who)
		}
	}
	for _, ctx := range []context.Context{member(t.Context(), "carol", "sales", "audit"), servicetest.AsAdmin(t.Context())} {
		require.Equal(t, []string{"Payroll", "Setup"}, names(ctx))
		require.NoError(t, create(ctx, "payroll"))
	}
}

// TestProjectsHaveMaxCost checks that lists of projects and roles say what a task may cost.
func TestProjectsHaveMaxCost(t *testing.T) {
	t.Parallel()
	h := servicetest.New(t, fake.Config{MaxCosts: map[string]fleet.Micros{"": 1_500_000, "coder": 2_000_000}}, nil)
	projects, _, err := h.ListProjects(h.Context())
	require.NoError(t, err)
	require.Equal(t, fleet.Micros(1_500_000), projects[0].MaxCost)
	roles, err := h.ListRoles(h.Context(), projects[0].Name)
	require.NoError(t, err)
	costs := map[string]fleet.Micros{}
	for _, r := range roles {
		costs[r.Name] = r.MaxCost
	}
	require.Equal(t, fleet.Micros(2_000_000), costs["coder"])
	require.Zero(t, costs["manager"])
}
