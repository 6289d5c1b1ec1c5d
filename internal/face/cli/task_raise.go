package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskRaise() *cobra.Command {
	req := &fleetv1.RaiseTaskBudgetRequest{}
	cmd := &cobra.Command{
		Use:   "raise ID USD",
		Short: "Set how much a task that has not ended may cost",
		Long: `Set what a task may cost in all, in US dollars. A task that waits because it has used up its
own limit goes on where it was. The budgets still hold.`,
		Example: `  fleet task raise 3f2a1b0c 2.50`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			usd, err := strconv.ParseFloat(strings.TrimPrefix(args[1], "$"), 64)
			if err != nil {
				return usagef("USD is %q: give an amount such as 2.50", args[1])
			}
			req.TaskId, req.MaxCostUsd = args[0], usd
			resp, err := s.fleet.RaiseTaskBudget(ctx, req)
			return s.print(resp, err, func() { s.printResult(resp.GetMessage(), args[0]) })
		}),
	}
	addRequestID(cmd, req)
	return callsTool(cmd, "raise_task_budget", "task_id")
}
