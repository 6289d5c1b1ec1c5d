package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newUsage() *cobra.Command {
	req := &fleetv1.ShowUsageRequest{By: fleetv1.ShowUsageRequest_agents}
	var since string
	cmd := calls(&cobra.Command{
		Use:   "usage [AGENT]",
		Short: "Sum up what tasks used: cost, tokens, time",
		Long: `Sum up what the tasks of all toolsets used in the last 30 days: cost, as far as agents
report it, tokens and time. It also counts how the tasks ended.`,
		Example: `  fleet usage
  fleet usage --by days --since 7d
  fleet usage papi --by projects
  fleet usage --by owners -o json | jq -r '.rows[] | [.key, .usage.cost_usd] | @tsv'`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			if len(args) == 1 {
				req.AgentName = args[0]
			}
			var err error
			if req.Since, err = timeFlag("since", since, s.deps.Now()); err != nil {
				return err
			}
			resp, err := s.fleet.ShowUsage(ctx, req)
			return s.print(resp, err, func() {
				g := newGrid(strings.ToUpper(strings.TrimSuffix(req.GetBy().String(), "s")), "TASKS", "COMPLETED", "FAILED", "STOPPED", "COST", "TOKENS IN", "TOKENS OUT", "TIME")
				for _, r := range resp.GetRows() {
					g.row(usageFields(r.GetKey(), r.GetUsage())...)
				}
				if len(resp.GetRows()) > 1 {
					g.row(usageFields("all", resp.GetTotal())...)
				}
				s.show(g, "There are no tasks since "+resp.GetSince().AsTime().Local().Format(time.DateOnly)+".")
			})
		}),
	}, "show_usage")
	f := cmd.Flags()
	addEnum(cmd, &req.By, fleetv1.ShowUsageRequest_By_name, "by", "a row for each of `WHAT`: agents, projects, owners or days")
	f.StringVar(&since, "since", "", "only tasks created in the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	f.StringVar(&req.Project, "project", "", "only tasks of agents of `PROJECT`")
	return cmd
}

func usageFields(key string, u *fleetv1.Usage) []any {
	return []any{
		key, u.GetTasks(), u.GetCompleted(), u.GetFailed(), u.GetStopped(), cost(u.GetCostUsd()),
		strconv.FormatFloat(u.GetInputTokens(), 'f', 0, 64), strconv.FormatFloat(u.GetOutputTokens(), 'f', 0, 64),
		lasting(time.Duration(u.GetSeconds() * float64(time.Second))),
	}
}
