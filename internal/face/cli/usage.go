package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newUsage() *cobra.Command {
	req := &fleetv1.ShowUsageRequest{By: fleetv1.ShowUsageRequest_agents}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "usage [AGENT]",
		Short: "Sum up what tasks used: cost, tokens, time",
		Long: `Sum up what the tasks of all toolsets used in the last 30 days: cost, as far as agents
report it, tokens and time. It also counts how the tasks ended.`,
		Example: `  fleet usage
  fleet usage --by days --since 7d
  fleet usage papi --by projects
  fleet usage --by owners -o json | jq -r '.rows[] | [.key, .usage.cost_usd] | @tsv'`,
	}, fleetv1.FleetServiceClient.ShowUsage, req, func(s *session, resp *fleetv1.ShowUsageResponse) {
		rows := resp.GetRows()
		if len(rows) > 1 {
			rows = append(rows, &fleetv1.UsageRow{Key: "all", Usage: resp.GetTotal()})
		}
		printList(s, rows, "There are no tasks since "+resp.GetSince().AsTime().Local().Format(time.DateOnly)+".",
			column{strings.ToUpper(strings.TrimSuffix(req.GetBy().String(), "s")), "key"}, column{"TASKS", "usage.tasks"}, column{"COMPLETED", "usage.completed"},
			column{"FAILED", "usage.failed"}, column{"STOPPED", "usage.stopped"}, column{"COST", func(r *fleetv1.UsageRow) string { return costText(r.GetUsage().GetCostUsd()) }},
			column{"TOKENS IN", "usage.input_tokens"}, column{"TOKENS OUT", "usage.output_tokens"}, column{"TIME", func(r *fleetv1.UsageRow) string { return numberText(r.GetUsage().GetSeconds(), fleetv1.Shown_seconds) }})
	})
	f := cmd.Flags()
	addEnum(cmd, &req.By, fleetv1.ShowUsageRequest_By_name, "by", "a row for each of `WHAT`: agents, projects, owners or days")
	p.addTime(cmd, &req.Since, "since", "only tasks created in the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	f.StringVar(&req.Project, "project", "", "only tasks of agents of `PROJECT`")
	addSelector(cmd, &req.Selector, "tasks")
	return cmd
}
