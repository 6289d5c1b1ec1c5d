package cli

import (
	"slices"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newRole() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "role",
		Aliases: []string{"roles"},
		Short:   "See how agents of a project can behave",
		Long:    `A role is how an agent behaves in a project, such as a coder or a reviewer.`,
		Example: `  fleet role list shell`,
	})
	cmd.AddCommand(methodCommand(p, &cobra.Command{
		Use:     "list PROJECT",
		Aliases: []string{"ls"},
		Short:   "List the roles of a project",
		Long: `List the roles of a project. An agent created without --role gets the default one.

Next, "fleet agent create NAME --project PROJECT --role ROLE".`,
		Example: `  fleet role list shell`,
	}, fleetv1.FleetServiceClient.ListAgentRoles, &fleetv1.ListAgentRolesRequest{}, func(s *session, resp *fleetv1.ListAgentRolesResponse) {
		printList(s, resp.GetRoles(), "The project has no roles.",
			column{"NAME", "name"}, column{"TITLE", "display_name"}, column{"DEFAULT", func(r *fleetv1.Role) any { return valueIf(r.GetDefault(), "yes") }},
			column{"MAX COST", valueIf(slices.ContainsFunc(resp.GetRoles(), func(r *fleetv1.Role) bool { return r.MaxCostUsd != nil }), "max_cost_usd")}, column{"DESCRIPTION", "description"})
	}))
	return cmd
}
