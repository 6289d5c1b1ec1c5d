package cli

import (
	"context"
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
			listBudgets(s, resp.GetBudgets(), "")
		}
		if len(resp.GetCredentials()) > 0 {
			s.screen.print("\n")
			listCredentials(s, resp.GetCredentials(), "")
		}
		if len(resp.GetLimits()) > 0 {
			s.screen.print("\n")
			printList(s, resp.GetLimits(), "", column{"LIMIT", "setting"}, column{"USED", "used"}, column{"MAX", "max"})
		}
	})
}

func (p *program) newSearch() *cobra.Command {
	req := &fleetv1.SearchFleetRequest{}
	cmd := callsTool(&cobra.Command{
		Use:   "search TEXT",
		Short: "Find agents, tasks and open questions by a text",
		Long: `Find agents by their name, project or role, tasks by their description or summary,
and open questions.`,
		Example: `  fleet search "login page"
  fleet search papi --limit 100`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if req.Text = args[0]; s.quiet && req.Limit == nil {
				req.Limit = new(int32(100)) // the most that a server finds
			}
			resp, err := s.fleet.SearchFleet(ctx, req)
			return s.print(resp, err, func() {
				printList(s, resp.GetItems(), "Nothing matches.",
					column{"KIND", valueIf(!s.quiet, "kind")}, column{"ID", "id"}, column{"AGENT", "agent_name"}, column{"STATUS", "status"}, column{"TEXT", "text"})
			})
		}),
	}, "search_fleet")
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` of each kind, at most 100 (default 10)")
	return cmd
}
