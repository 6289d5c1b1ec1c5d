package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newStatus() *cobra.Command {
	return calls(&cobra.Command{
		Use:   "status",
		Short: "Show the state of the fleet in a few numbers",
		Long: `Show the state of the fleet in a few numbers: its agents by status, the open
questions, and what the tasks of the last 24 hours used.`,
		Example: `  fleet status
  fleet status -o json | jq .questions`,
		Args:              args(""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			resp, err := s.fleet.ShowFleet(ctx, &fleetv1.ShowFleetRequest{})
			return s.print(resp, err, func() {
				g := newGrid("AGENTS", "BUSY", "WAITING", "STALLED", "IDLE", "OFFLINE", "QUESTIONS", "TASKS 24H", "FAILED 24H", "COST 24H")
				day := resp.GetLastDay()
				g.row(resp.GetAgents(), resp.GetBusy(), resp.GetWaiting(), resp.GetStalled(), resp.GetIdle(),
					resp.GetOffline(), resp.GetQuestions(), day.GetTasks(), day.GetFailed(), cost(day.GetCostUsd()))
				s.show(g, "")
			})
		}),
	}, "show_fleet")
}
