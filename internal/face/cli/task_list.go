package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskList() *cobra.Command {
	var pages paging
	var since string
	req := &fleetv1.ListTasksRequest{}
	filters := []string{"status", "project", "source", "since", "text", "toolset"}
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
		Args:              args("[AGENT]"),
		ValidArgsFunction: p.completeAgent(),
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			filtered := false
			for _, f := range filters {
				filtered = filtered || s.cmd.Flags().Changed(f)
			}
			if len(args) == 1 && !filtered {
				return s.showHistory(ctx, args[0], pages)
			}
			var err error
			if req.Since, err = timeFlag("since", since, s.deps.Now()); err != nil {
				return err
			}
			if len(args) == 1 {
				req.AgentName = args[0]
			}
			req.Page, req.PageSize = pages.values(s.cmd)
			resp, err := s.fleet.ListTasks(ctx, req)
			if err != nil {
				return err
			}
			none := `There are no tasks yet. Start one: fleet task run AGENT "..." --follow`
			if filtered {
				none = "No task matches. See all of them: fleet task list"
			}
			return s.print(resp, nil, func() {
				s.showTasks(resp.GetTasks(), len(args) == 0, beyond(resp, none))
				s.tellPage(resp)
			})
		}),
	}
	f := cmd.Flags()
	addEnum(cmd, &req.Status, fleetv1.Task_Status_name, "status", "only tasks that are `STATUS`: pending, running, completed, failed or stopped")
	f.StringVar(&req.Project, "project", "", "only tasks of agents of `PROJECT`")
	addEnum(cmd, &req.Source, fleetv1.Task_Source_name, "source", "only tasks from `SOURCE`: human, agent or ai_controller")
	f.StringVar(&since, "since", "", "only tasks created in the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	f.StringVar(&req.Text, "text", "", "only tasks with `TEXT` in the summary or the description")
	addEnum(cmd, &req.Toolset, fleetv1.ListTasksRequest_Toolset_name, "toolset",
		"only tasks of `TOOLSET`: fleet, lifecycle, providers, sessions, subagents or every (default fleet)")
	pages.addTo(cmd, "tasks", "20")
	complete(cmd, "project", flagValue(p.completeProjects()))
	complete(cmd, "since", cobra.NoFileCompletions)
	complete(cmd, "text", cobra.NoFileCompletions)
	return cmd
}

// showHistory lists the tasks of the agent that currently has the name.
func (s *session) showHistory(ctx context.Context, agent string, pages paging) error {
	req := &fleetv1.ShowAgentTaskHistoryRequest{AgentName: agent}
	req.Page, req.PageSize = pages.values(s.cmd)
	resp, err := s.fleet.ShowAgentTaskHistory(ctx, req)
	return s.print(resp, err, func() {
		s.showTasks(resp.GetTasks(), false, beyond(resp, "There are no tasks here. Start one: fleet task run "+agent+` "..." --follow`))
		s.tellPage(resp)
	})
}

// page is an answer with one page of tasks.
type page interface {
	GetPage() int32
	GetTotalPages() int32
	GetTotalCount() int32
}

// more returns "+" if the total in the answer is only a lower bound.
func more(p page) string {
	if l, ok := p.(interface{ GetTotalIsLowerBound() bool }); ok && l.GetTotalIsLowerBound() {
		return "+"
	}
	return ""
}

// beyond returns the hint for an empty page: none if the list has no tasks, or that the page is beyond the last one.
func beyond(p page, none string) string {
	switch {
	case p.GetTotalCount() == 0:
		return none
	case more(p) != "":
		return "Page " + strconv.Itoa(int(p.GetPage())) + " is beyond the last one."
	}
	return "Page " + strconv.Itoa(int(p.GetPage())) + " is beyond the last one, which is page " + strconv.Itoa(int(p.GetTotalPages())) + "."
}

func (s *session) tellPage(p page) {
	if p.GetTotalPages() > 1 {
		s.hint("Page %d of %d%[4]s, %[3]d%[4]s tasks.", p.GetPage(), p.GetTotalPages(), p.GetTotalCount(), more(p))
	}
}
