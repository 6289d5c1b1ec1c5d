package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newProject() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "project",
		Aliases: []string{"projects"},
		Short:   "See what agents can work on",
		Long: `A project is what agents work on: a Coder template, or an entry of fleet.yaml. Each
project is in one place. If several places have a project with the same name, write
PLACE/PROJECT.

"fleet project list" shows the projects, and "fleet role list PROJECT" shows the roles
of a project.`,
		Example: `  fleet project list`,
	})
	cmd.AddCommand(callsTool(&cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the projects",
		Long: `List the projects that agents can work on.

-o wide also shows the parameters that "fleet agent create --param" accepts, and their
options. An agent needs those with a star.

Next, see "fleet role list PROJECT", or "fleet agent create NAME --project PROJECT".`,
		Example: `  fleet project list
  fleet project list -o json | jq -r '.projects[].name'`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			resp, err := s.fleet.ListAgentProjects(ctx, &fleetv1.ListAgentProjectsRequest{})
			severalPlaces := len(resp.GetPlaces()) > 1
			for _, p := range resp.GetPlaces() {
				if severalPlaces && !p.GetOk() {
					s.screen.printErrLine(fmt.Sprintf("fleet: projects of %s may be missing: %s", printable(p.GetName()), printable(p.GetReason())))
				}
			}
			return s.print(resp, err, func() {
				printList(s, resp.GetProjects(), "There are no projects. Add them to the configuration of the server.",
					column{"NAME", "name"}, column{"TITLE", "display_name"}, column{"DESCRIPTION", "description"}, column{"PLACE", valueIf(severalPlaces, "place")},
					column{"MAX COST", valueIf(slices.ContainsFunc(resp.GetProjects(), func(p *fleetv1.Project) bool { return p.MaxCostUsd != nil }), "max_cost_usd")},
					column{"PARAMETERS", valueIf(s.output == wideFormat || slices.ContainsFunc(resp.GetProjects(), needsParameters), parametersText)})
			})
		}),
	}, "list_agent_projects"))
	return cmd
}

// needsParameters reports whether the project has a required parameter. --param or the role of an agent must set it.
func needsParameters(p *fleetv1.Project) bool {
	return slices.ContainsFunc(p.GetParameters(), (*fleetv1.ProjectParameter).GetRequired)
}

// parametersText lists the parameters of the project with their options. Required ones are marked with a star.
func parametersText(p *fleetv1.Project) string {
	var texts []string
	for _, q := range p.GetParameters() {
		text := q.GetName()
		if q.GetRequired() {
			text += "*"
		}
		if options := q.GetOptions(); len(options) > 0 {
			text += "=" + strings.Join(options, "|")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}
