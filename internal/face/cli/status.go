package cli

import (
	"context"
	"strconv"

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
				g := newGrid("AGENTS", "BUSY", "WAITING", "STALLED", "IDLE", "OFFLINE", "QUESTIONS", "TASKS 24H", "FAILED 24H", "COST 24H")
				day := resp.GetLastDay()
				g.row(resp.GetAgents(), resp.GetBusy(), resp.GetWaiting(), resp.GetStalled(), resp.GetIdle(),
					resp.GetOffline(), resp.GetQuestions(), day.GetTasks(), day.GetFailed(), cost(day.GetCostUsd()))
				s.show(g, "")
				if len(resp.GetLimits()) == 0 {
					return
				}
				g = newGrid("LIMIT", "USED", "MAX")
				for _, l := range resp.GetLimits() {
					used := ""
					if l.Used != nil {
						used = strconv.FormatFloat(l.GetUsed(), 'f', -1, 64)
					}
					g.row(l.GetSetting(), used, strconv.FormatFloat(l.GetMax(), 'f', -1, 64))
				}
				s.screen.print("\n")
				s.show(g, "")
			})
		}),
	}, "show_fleet")
}
