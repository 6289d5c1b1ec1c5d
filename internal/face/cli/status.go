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
questions, what the tasks of the last 24 hours used, and your limits.`,
		Example: `  fleet status
  fleet status -o json | jq .questions`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			resp, err := s.fleet.ShowFleet(ctx, &fleetv1.ShowFleetRequest{})
			return s.print(resp, err, func() {
				list(s, []*fleetv1.ShowFleetResponse{resp}, "",
					column{"AGENTS", "agents"}, column{"BUSY", "busy"}, column{"WAITING", "waiting"}, column{"STALLED", "stalled"}, column{"IDLE", "idle"}, column{"OFFLINE", "offline"},
					column{"QUESTIONS", "questions"}, column{"TASKS 24H", "last_day.tasks"}, column{"FAILED 24H", "last_day.failed"}, column{"COST 24H", func(r *fleetv1.ShowFleetResponse) string { return cost(r.GetLastDay().GetCostUsd()) }})
				if len(resp.GetLimits()) > 0 {
					s.screen.print("\n")
					list(s, resp.GetLimits(), "", column{"LIMIT", "setting"}, column{"USED", "used"}, column{"MAX", "max"})
				}
			})
		}),
	}, "show_fleet")
}
