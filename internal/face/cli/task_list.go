package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskList() *cobra.Command {
	req := &fleetv1.ListTasksRequest{}
	filters := []string{"status", "project", "source", "since", "text", "toolset", "selector"}
	cmd := &cobra.Command{
		Use:     "list [AGENT]",
		Aliases: []string{"ls", "history"},
		Short:   "List tasks, newest first",
		Long: `List the tasks of one agent or of all agents, newest first, by pages. Tasks of
deleted agents are included. -q prints the ids of all pages. Without a filter, AGENT means only the agent that has
the name now or, if there is none, the last agent that had it.

"fleet task show ID" shows one task in detail. The beginning of an id, as in the
table, is enough.`,
		Example: `  fleet task list
  fleet task list papi --page 2 --page-size 50
  fleet task list --status failed --since 24h
  fleet task list --text "login page" -o wide
  fleet task list --status failed -q        # ids of all pages, for xargs
  fleet task list papi -o json | jq '.tasks[] | select(.status == "failed")'`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			isFiltered := slices.ContainsFunc(filters, s.cmd.Flags().Changed)
			emptyText := `There are no tasks yet. Start one: fleet task run AGENT "..." --follow`
			if len(args) == 1 {
				req.AgentName, req.LastAgent = args[0], !isFiltered
				emptyText = "There are no tasks here. Start one: fleet task run " + args[0] + ` "..." --follow`
			}
			if isFiltered {
				emptyText = "No task matches. See all of them: fleet task list"
			}
			resp, err := s.fleet.ListTasks(ctx, req)
			return s.print(resp, err, func() {
				plus := ""
				if resp.GetTotalIsLowerBound() {
					plus = "+"
				}
				if resp.GetTotalCount() > 0 {
					emptyText = fmt.Sprintf("Page %d is beyond the last one", resp.GetPage())
					if plus == "" {
						emptyText += fmt.Sprintf(", which is page %d", resp.GetTotalPages())
					}
					emptyText += "."
				}
				s.showTasks(resp.GetTasks(), len(args) == 0, emptyText)
				if resp.GetTotalPages() > 1 {
					s.hint("Page %d of %d%[4]s, %[3]d%[4]s tasks.", resp.GetPage(), resp.GetTotalPages(), resp.GetTotalCount(), plus)
				}
			})
		}),
	}
	f := cmd.Flags()
	addEnum(cmd, &req.Status, fleetv1.Task_Status_name, "status", "only tasks that are `STATUS`: pending, running, completed, failed or stopped")
	f.StringVar(&req.Project, "project", "", "only tasks of agents of `PROJECT`")
	addEnum(cmd, &req.Source, fleetv1.Task_Source_name, "source", "only tasks from `SOURCE`: human, agent or ai_controller")
	p.addTime(cmd, &req.Since, "since", "only tasks created in the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	f.StringVar(&req.Text, "text", "", "only tasks with `TEXT` in the summary or the description")
	addEnum(cmd, &req.Toolset, fleetv1.ListTasksRequest_Toolset_name, "toolset",
		"only tasks of `TOOLSET`: fleet, lifecycle, providers, sessions, subagents or every (default fleet)")
	addSelector(cmd, &req.Selector, "tasks")
	addPages(cmd, &req.Page, &req.PageSize, "tasks", "20")
	return cmd
}

// descriptionWidth is the maximum width of a task's description in a table, in columns. A wide table shows the whole description.
const descriptionWidth = 40

const (
	// narrowWidth is the width of a terminal, in columns, below which the list has no summaries, unless it is a wide table.
	narrowWidth = 76
	// otherColumnsWidth is the approximate width of all columns except DESCRIPTION and SUMMARY.
	otherColumnsWidth = 44
)

// showTasks prints tasks as a table, with an agent column if tasks of several agents are listed.
func (s *session) showTasks(tasks []*fleetv1.Task, withAgents bool, emptyText string) {
	isWide := s.output == wideFormat
	width, textWidth := s.screen.outTerminal.width(), descriptionWidth
	withSummaries := isWide || width == 0 || width >= narrowWidth
	if !isWide && width > 0 && withSummaries { // both texts get half of what the other columns leave
		textWidth = min(textWidth, (width-otherColumnsWidth)/2)
	}
	printList(s, tasks, emptyText,
		column{"ID", func(t *fleetv1.Task) string { return s.shownID(t.GetId()) }},
		column{"AGENT", valueIf(withAgents || isWide, "agent_name")},
		column{"OWNER", valueIf(isWide || hasSeveralOwners(tasks), "owner")},
		column{"STATUS", func(t *fleetv1.Task) cell { return statusCell(t.GetStatus(), t) }},
		column{"SOURCE", valueIf(isWide, "source")},
		column{"AGE", (*fleetv1.Task).GetCreatedAt},
		column{"TOOK", func(t *fleetv1.Task) string { return s.elapsedText(t.GetStartedAt(), t.GetCompletedAt()) }},
		column{"DESCRIPTION", func(t *fleetv1.Task) string {
			if isWide || !withSummaries {
				return oneLine(t.GetDescription())
			}
			return truncate(oneLine(t.GetDescription()), textWidth)
		}},
		column{"LABELS", valueIf(isWide, func(t *fleetv1.Task) string { return labelsText(t.GetLabels()) })},
		column{"SUMMARY", valueIf(withSummaries, outcomeText)})
}

// outcomeText returns the summary of a completed task, and the reason why a task failed or was stopped. If it has no reason, its
// summary stands in. For a task that has not ended, outcomeText returns "", because the summary may only repeat the description.
func outcomeText(t *fleetv1.Task) string {
	if t.GetStatus() == fleetv1.Task_completed || t.GetReason() == "" && hasEnded(t.GetStatus()) {
		return t.GetSummary()
	}
	return t.GetReason()
}
