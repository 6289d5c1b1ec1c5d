package cli

import (
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newStatus() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "status",
		Short: "Show the state of the fleet in a few numbers",
		Long: `Show the state of the fleet in a few numbers: its agents by status, the open
questions, what the tasks of the last 24 hours used, why the tasks of the queue wait, budgets
and credentials that are nearly used up, and your limits.`,
		Example: `  fleet status
  fleet status -o json | jq .questions`,
	}, fleetv1.FleetServiceClient.ShowFleet, &fleetv1.ShowFleetRequest{}, func(s *session, resp *fleetv1.ShowFleetResponse) {
		printList(s, []*fleetv1.ShowFleetResponse{resp}, "",
			column{"AGENTS", "agents"}, column{"BUSY", "busy"}, column{"WAITING", "waiting"}, column{"STALLED", "stalled"}, column{"IDLE", "idle"}, column{"OFFLINE", "offline"}, column{"QUEUED", "pending"},
			column{"QUESTIONS", "questions"}, column{"TASKS 24H", "last_day.tasks"}, column{"FAILED 24H", "last_day.failed"}, column{"COST 24H", func(r *fleetv1.ShowFleetResponse) string { return costText(r.GetLastDay().GetCostUsd()) }})
		if p := resp.GetPaused(); p != nil {
			s.screen.print("\nPaused by " + p.GetBy() + afterColon(p.GetReason()) + ". Resume it: fleet resume\n")
		}
		if len(resp.GetPendingReasons()) > 0 {
			s.screen.print("\n")
			printList(s, resp.GetPendingReasons(), "", column{"WAITS FOR", func(r *fleetv1.WaitCount) string { return strings.ReplaceAll(r.GetReason(), "_", " ") }}, column{"TASKS", "tasks"})
		}
		if len(resp.GetBudgets()) > 0 {
			s.screen.print("\nNearly used up:\n")
			printBudgets(s, resp.GetBudgets(), "")
		}
		if len(resp.GetCredentials()) > 0 {
			s.screen.print("\n")
			printCredentials(s, resp.GetCredentials(), "")
		}
		if len(resp.GetLimits()) > 0 {
			s.screen.print("\n")
			printList(s, resp.GetLimits(), "", column{"LIMIT", "setting"}, column{"USED", "used"}, column{"MAX", "max"})
		}
	})
}
