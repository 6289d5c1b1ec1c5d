package cli

import (
	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newSearch() *cobra.Command {
	req := &fleetv1.SearchFleetRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "search TEXT",
		Short: "Find agents, tasks and open questions by a text",
		Long: `Find agents by their name, project or role, tasks by their description or summary,
and open questions.`,
		Example: `  fleet search "login page"
  fleet search papi --limit 100`,
		PreRun: func(*cobra.Command, []string) {
			if p.quiet && req.Limit == nil {
				req.Limit = new(int32(100)) // the most that a server finds
			}
		},
	}, fleetv1.FleetServiceClient.SearchFleet, req, func(s *session, resp *fleetv1.SearchFleetResponse) {
		printList(s, resp.GetItems(), "Nothing matches.",
			column{"KIND", valueIf(!s.quiet, "kind")}, column{"ID", "id"}, column{"AGENT", "agent_name"}, column{"STATUS", "status"}, column{"TEXT", "text"})
	})
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` of each kind, at most 100 (default 10)")
	return cmd
}
