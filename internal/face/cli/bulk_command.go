package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newBulk() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "bulk",
		Short: "Plan one operation for many agents or tasks, and run the plan",
		Long: `Commands such as "fleet agent stop" take --selector, --all and --dry-run. They make a
plan, which says what happens to each agent, and run it. "fleet bulk plan" makes only the
plan, and "fleet bulk run" runs it, or goes on with it if it was interrupted: each item is
done once.`,
		Example: `  fleet agent stop -l team=web --dry-run
  fleet bulk plan queue -l team=web --text "Update the dependencies" -q
  fleet bulk run 3f2a1b0c-5d6e-4f70-8192-a3b4c5d6e7f8`,
	})
	cmd.AddCommand(p.newBulkPlan(), p.newBulkRun())
	return cmd
}

func (p *program) newBulkPlan() *cobra.Command {
	req := &fleetv1.PlanBulkRequest{}
	cmd := &cobra.Command{
		Use:   "plan OPERATION [AGENT]...",
		Short: "Make a plan, and show what it would do",
		Long: `Make a plan and show what it would do with each agent or task. Nothing is done. OPERATION
is start, stop, restart, delete, message, label, queue, move or stop-task. Instead of
agents, stop-task also takes ids of tasks.`,
		Example: `  fleet bulk plan stop papi sony
  fleet bulk plan queue -l team=web --text "Update the dependencies" --priority 5
  id=$(fleet bulk plan move --all --pool web -q) && fleet bulk run "$id"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			operation := enumFlag[fleetv1.PlanBulkRequest_Operation]{&req.Operation, fleetv1.PlanBulkRequest_Operation_name}
			if err := operation.Set(strings.ReplaceAll(args[0], "-", "_")); err != nil {
				return usagef("OPERATION is %q: %s", args[0], strings.ReplaceAll(err.Error(), "_", "-"))
			}
			req.Names = args[1:]
			plan, err := s.fleet.PlanBulk(ctx, req)
			return s.print(plan, err, func() {
				if s.quiet {
					s.printResult("", plan.GetPlanId())
					return
				}
				s.printPlan(plan)
			})
		}),
	}
	f := cmd.Flags()
	addSelector(cmd, &req.Selector, "agents or tasks")
	f.BoolVar(&req.All, "all", false, "all agents or tasks with which you may do it")
	f.StringVar(&req.Text, "text", "", "the `TEXT` of the message, or of the task")
	addLabels(cmd, &req.Labels, "agents or queued tasks")
	f.StringArrayVar(&req.Remove, "remove-label", nil, "remove the label `KEY`; can be repeated")
	f.StringVar(&req.Pool, "pool", "", "the `POOL` to move agents to (default: out of their pool)")
	f.StringVar(&req.Role, "role", "", "the `ROLE` of restarted agents (default: they keep it)")
	f.BoolVar(&req.Update, "update", false, "update restarted agents to the newest version of their project")
	f.BoolVar(&req.KeepUnsaved, "keep-unsaved", false, "do not delete agents with work that exists only in their workspace")
	addOptional(f, &req.Priority, "priority", "the priority of queued tasks, from -100 to 100: `N`")
	addOptional(f, &req.MaxCostUsd, "max-cost", "a queued task fails when it has cost `USD`")
	addSeconds(cmd, "timeout", "stop a queued task after `DURATION`", func(n int32) { req.TimeoutSeconds = &n })
	addRequestID(cmd, req)
	return callsTool(cmd, "plan_bulk")
}

func (p *program) newBulkRun() *cobra.Command {
	return callsTool(&cobra.Command{
		Use:   "run PLAN",
		Short: "Run a plan, or go on with it",
		Long: `Run a plan of "fleet bulk plan" or of a command with --dry-run, or go on with a plan that
was interrupted. Each item is done once, however often the plan is run.`,
		Example: `  fleet bulk run 3f2a1b0c-5d6e-4f70-8192-a3b4c5d6e7f8`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			return s.runPlan(ctx, args[0], "running the plan", noLimit, nil)
		}),
	}, "run_bulk", "plan_id")
}
