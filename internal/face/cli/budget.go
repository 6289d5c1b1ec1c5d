package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newBudget() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:   "budget",
		Short: "See and set what tasks may cost",
		Long: `A budget limits what the tasks of a scope may cost in a window of time. Each task reserves
what it may cost when it starts, and starts only if each budget that applies to it has that
much left.`,
		Example: `  fleet budget set day --usd 10 --window day --time-zone Europe/Berlin
  fleet budget list
  fleet budget show day`,
	})
	cmd.AddCommand(p.newBudgetSet(), p.newBudgetList(), p.newBudgetShow(),
		methodCommand(p, &cobra.Command{
			Use: "delete NAME", Short: "Delete a budget", Example: `  fleet budget delete day`,
			Long: `Delete a budget. Its ledger remains, and counts again if a budget with its name is set. Only
admins can do this.`,
		}, fleetv1.FleetServiceClient.DeleteBudget, &fleetv1.DeleteBudgetRequest{}, printMessage[*fleetv1.DeleteBudgetResponse]))
	return cmd
}

func (p *program) newBudgetSet() *cobra.Command {
	req := &fleetv1.SetBudgetRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "set NAME",
		Short: "Add or replace a budget",
		Long: `Add a budget, or replace the one with this name. What it has spent remains. Only admins can
do this.

A budget is for all tasks, or for those of --scope with --value: a project, a pool, a role
(ROLE or PROJECT/ROLE), an agent (AGENT or AGENT@OWNER), an owner, a credential, or a label (a
selector such as env=prod).`,
		Example: `  fleet budget set day --usd 10 --window day --time-zone Europe/Berlin
  fleet budget set web --usd 200 --window month --scope project --value web --on-breach stop
  fleet budget set tokens --tokens 5000000 --window week --scope label --value env=prod`,
	}, fleetv1.FleetServiceClient.SetBudget, req, printMessage[*fleetv1.SetBudgetResponse])
	f := cmd.Flags()
	addOptional(f, &req.LimitUsd, "usd", "let the tasks cost at most `USD` in a window")
	addOptional(f, &req.LimitTokens, "tokens", "let the tasks use at most `N` tokens in a window")
	f.StringVar(&req.Window, "window", "", "begin anew each `WINDOW`: day, week or month (default none)")
	f.StringVar(&req.TimeZone, "time-zone", "", "`ZONE` of the window, such as Europe/Berlin (default UTC)")
	f.StringVar(&req.Scope, "scope", "", "only for tasks of this `SCOPE`: project, pool, role, agent, owner, label or credential (default fleet)")
	f.StringVar(&req.Value, "value", "", "the `VALUE` of the scope, such as the name of the project")
	f.StringVar(&req.OnBreach, "on-breach", "", "`ACTION` when it is used up: hold running tasks, stop them, or ask whether they go on (default hold)")
	f.StringVar(&req.Unpriced, "unpriced", "", "refuse or allow tasks whose cost cannot be known (default refuse)")
	return cmd
}

func (p *program) newBudgetList() *cobra.Command {
	return methodCommand(p, &cobra.Command{
		Use:   "list",
		Short: "List budgets and what they have left",
		Long: `List the budgets that apply to agents that you can see, with what their tasks have spent and
reserved in this window. Admins see all budgets.`,
		Example: `  fleet budget list`,
	}, fleetv1.FleetServiceClient.ListBudgets, &fleetv1.ListBudgetsRequest{}, func(s *session, resp *fleetv1.ListBudgetsResponse) {
		printBudgets(s, resp.GetBudgets(), "There are no budgets. Set one: fleet budget set NAME --usd USD")
	})
}

func printBudgets(s *session, budgets []*fleetv1.Budget, emptyText string) {
	printList(s, budgets, emptyText, column{"NAME", "name"},
		column{"FOR", func(b *fleetv1.Budget) string { return strings.TrimSpace(b.GetScope() + " " + b.GetValue()) }},
		column{"LIMIT", func(b *fleetv1.Budget) string {
			if w := b.GetWindow(); w != "none" {
				return budgetText(b, b.GetLimitUsd(), b.GetLimitTokens()) + " a " + w
			}
			return budgetText(b, b.GetLimitUsd(), b.GetLimitTokens())
		}},
		column{"SPENT", func(b *fleetv1.Budget) string { return budgetText(b, b.GetSpentUsd(), b.GetSpentTokens()) }},
		column{"RESERVED", func(b *fleetv1.Budget) string { return budgetText(b, b.GetReservedUsd(), b.GetReservedTokens()) }},
		column{"LEFT", func(b *fleetv1.Budget) string { return budgetText(b, b.GetLeftUsd(), b.GetLeftTokens()) }},
		column{"BEGINS ANEW", func(b *fleetv1.Budget) string {
			if b.GetWindowEnds() == nil {
				return "never"
			}
			return "in " + shortDuration(b.GetWindowEnds().AsTime().Sub(s.deps.Now()))
		}})
}

// budgetText formats the parts of an amount that the budget limits: dollars, tokens or both.
func budgetText(b *fleetv1.Budget, usd, tokens float64) string {
	var parts []string
	if b.LimitUsd != nil {
		parts = append(parts, dollarsText(usd))
	}
	if b.LimitTokens != nil {
		parts = append(parts, fmt.Sprintf("%.0f tokens", tokens))
	}
	return strings.Join(parts, ", ")
}

func (p *program) newBudgetShow() *cobra.Command {
	req := &fleetv1.ShowBudgetRequest{}
	cmd := methodCommand(p, &cobra.Command{
		Use:   "show NAME",
		Short: "Show a budget and its ledger",
		Long: `Show a budget and its ledger: what each task reserved when it started, what it had spent when
it ended, and which tasks were refused.`,
		Example: `  fleet budget show day
  fleet budget show day --all --limit 500 -o json`,
	}, fleetv1.FleetServiceClient.ShowBudget, req, func(s *session, resp *fleetv1.ShowBudgetResponse) {
		printBudgets(s, []*fleetv1.Budget{resp.GetBudget()}, "")
		if len(resp.GetEntries()) == 0 {
			return
		}
		b := resp.GetBudget()
		s.screen.print("\n")
		printList(s, resp.GetEntries(), "", column{"AT", "at"}, column{"KIND", "kind"},
			column{"TASK", func(e *fleetv1.BudgetEntry) string { return shortID(e.GetTaskId()) }},
			column{"RESERVED", func(e *fleetv1.BudgetEntry) string {
				return nonzeroBudgetText(b, e.GetReservedUsd(), e.GetReservedTokens())
			}},
			column{"SPENT", func(e *fleetv1.BudgetEntry) string { return nonzeroBudgetText(b, e.GetSpentUsd(), e.GetSpentTokens()) }},
			column{"WHY", "text"})
		if resp.GetNextCursor() != "" {
			s.hint("There are earlier entries; --limit N shows more.")
		}
	})
	cmd.Flags().BoolVar(&req.All, "all", false, "also show entries of earlier windows")
	addOptional(cmd.Flags(), &req.Limit, "limit", "show at most `N` entries, at most 500 (default 50)")
	return cmd
}

// nonzeroBudgetText does the same as budgetText, and returns "" if both amounts are zero.
func nonzeroBudgetText(b *fleetv1.Budget, usd, tokens float64) string {
	if usd == 0 && tokens == 0 {
		return ""
	}
	return budgetText(b, usd, tokens)
}
