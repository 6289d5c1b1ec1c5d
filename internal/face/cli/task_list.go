package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskList() *cobra.Command {
	var pages paging
	var status, source, toolset, since string
	req := &fleetv1.ListTasksRequest{}
	filters := []string{"status", "project", "source", "since", "text", "toolset"}
	cmd := &cobra.Command{
		Use:     "list [AGENT]",
		Aliases: []string{"ls", "history"},
		Short:   "List tasks, newest first",
		Long: `List tasks, newest first, by pages: those of one agent, or of all agents, also of
deleted ones. With filters and an agent, tasks of deleted agents of that name are
listed too.

"fleet task show ID" tells more of one of them; the beginning of an id, as the
table shows it, is enough.`,
		Example: `  fleet task list
  fleet task list papi --page 2 --page-size 50
  fleet task list --status failed --since 24h
  fleet task list --text "login page" -o wide
  fleet task list papi -o json | jq '.tasks[] | select(.status == "failed")'`,
		Args:              atMostOne("AGENT"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			filtered := false
			for _, f := range filters {
				filtered = filtered || s.cmd.Flags().Changed(f)
			}
			if len(args) == 1 && !filtered {
				return s.showHistory(ctx, args[0], pages)
			}
			if err := s.readTaskFilter(req, status, source, toolset, since); err != nil {
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
				none = "No task is like that. All of them: fleet task list"
			}
			return s.print(resp, func() {
				s.showTasks(resp.GetTasks(), len(args) == 0, beyond(resp, none))
				s.tellPage(resp)
			})
		}),
	}
	f := cmd.Flags()
	f.StringVar(&status, "status", "", "only tasks that are `STATUS`: pending, running, completed, failed or stopped")
	f.StringVar(&req.Project, "project", "", "only tasks of agents of `PROJECT`")
	f.StringVar(&source, "source", "", "only tasks from `SOURCE`: human, agent or ai_controller")
	f.StringVar(&since, "since", "", "only tasks created in the last `DURATION`, such as 24h or 7d, or since a time such as 2026-11-01")
	f.StringVar(&req.Text, "text", "", "only tasks with `TEXT` in the summary or the description")
	f.StringVar(&toolset, "toolset", "", "only tasks of `TOOLSET`: fleet, lifecycle, providers, sessions, subagents or every (default fleet)")
	pages.addTo(cmd, "tasks", "20")
	complete(cmd, "status", fixed(fleetv1.Task_Status_name))
	complete(cmd, "project", p.completeProjects)
	complete(cmd, "source", fixed(fleetv1.Task_Source_name))
	complete(cmd, "since", cobra.NoFileCompletions)
	complete(cmd, "text", cobra.NoFileCompletions)
	complete(cmd, "toolset", fixed(fleetv1.ListTasksRequest_Toolset_name))
	return cmd
}

// fixed completes the values of an enum.
func fixed(names map[int32]string) cobra.CompletionFunc {
	var choices []string
	for n := int32(1); names[n] != ""; n++ {
		choices = append(choices, names[n])
	}
	return cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp)
}

// showHistory lists the tasks of the agent that currently has the name.
func (s *session) showHistory(ctx context.Context, agent string, pages paging) error {
	req := &fleetv1.ShowAgentTaskHistoryRequest{AgentName: agent}
	req.Page, req.PageSize = pages.values(s.cmd)
	resp, err := s.fleet.ShowAgentTaskHistory(ctx, req)
	if err != nil {
		return err
	}
	return s.print(resp, func() {
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

// beyond returns the hint for an empty page of a list that has tasks on other pages.
func beyond(p page, none string) string {
	if p.GetTotalCount() == 0 {
		return none
	}
	return "Page " + strconv.Itoa(int(p.GetPage())) + " is beyond the last one, which is page " + strconv.Itoa(int(p.GetTotalPages())) + "."
}

func (s *session) tellPage(p page) {
	if p.GetTotalPages() > 1 {
		s.hint("Page %d of %d, %d tasks.", p.GetPage(), p.GetTotalPages(), p.GetTotalCount())
	}
}

// readTaskFilter sets the request's filter from the flags.
func (s *session) readTaskFilter(req *fleetv1.ListTasksRequest, status, source, toolset, since string) error {
	for _, v := range []struct {
		flag, value string
		values      map[string]int32
		set         func(n int32)
	}{
		{"status", status, fleetv1.Task_Status_value, func(n int32) { req.Status = fleetv1.Task_Status(n) }},
		{"source", source, fleetv1.Task_Source_value, func(n int32) { req.Source = fleetv1.Task_Source(n) }},
		{"toolset", toolset, fleetv1.ListTasksRequest_Toolset_value, func(n int32) { req.Toolset = fleetv1.ListTasksRequest_Toolset(n) }},
	} {
		if v.value == "" {
			continue
		}
		n := v.values[v.value]
		if n == 0 {
			return usagef("--%s %q does not exist; see %q", v.flag, v.value, "fleet task list --help")
		}
		v.set(n)
	}
	if since == "" {
		return nil
	}
	at, err := timeBefore(since, s.deps.Now())
	if err != nil {
		return err
	}
	req.Since = timestamppb.New(at)
	return nil
}

// timeBefore parses a point in time: a date, an RFC 3339 time, or an age such as 90m, 24h or 7d.
func timeBefore(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, usagef("--since %q is not a duration such as 90m, 24h or 7d, nor a time such as 2026-11-01 or 2026-11-01T10:30:00Z", text)
}

// shortID is how much of a task's id a table shows, in bytes.
const shortID = 8

// descriptionWidth is how much of a task's description a table shows, in columns, unless it is a wide table.
const descriptionWidth = 40

// showTasks prints tasks as a table, with an agent column if tasks of several agents are listed.
func (s *session) showTasks(tasks []*fleetv1.Task, agents bool, none string) {
	isWide, several := s.output == wide, severalOwners(tasks)
	var head []string
	column := func(name string, shown bool) {
		if shown {
			head = append(head, name)
		}
	}
	column("ID", true)
	column("AGENT", agents || isWide)
	column("OWNER", several || isWide)
	column("STATUS", true)
	column("SOURCE", isWide)
	column("AGE", true)
	column("TOOK", true)
	column("DESCRIPTION", true)
	column("SUMMARY", true)
	g := newGrid(head...)
	for _, t := range tasks {
		id, description := t.GetId(), strings.Join(strings.Fields(t.GetDescription()), " ")
		if !isWide {
			description = truncate(description, descriptionWidth)
			if !s.quiet {
				id = id[:min(len(id), shortID)]
			}
		}
		cells := map[string]any{
			"ID": id, "AGENT": t.GetAgentName(), "OWNER": t.GetOwner(), "STATUS": busyCell(t.GetStatus(), t.GetStalled(), t.GetWaiting()),
			"SOURCE": t.GetSource().String(), "AGE": s.age(t.GetCreatedAt()), "TOOK": s.took(t.GetStartedAt(), t.GetCompletedAt()),
			"DESCRIPTION": description, "SUMMARY": outcome(summaryOf(t), t.GetReason()),
		}
		row := make([]any, len(head))
		for i, name := range head {
			row[i] = cells[name]
		}
		g.row(row...)
	}
	s.show(g, none)
}

// summaryOf returns the summary of an ended task. Before the end, the summary only repeats the description.
func summaryOf(t *fleetv1.Task) string {
	if !over(t.GetStatus()) {
		return ""
	}
	return t.GetSummary()
}

// severalOwners reports whether the list contains things of several owners, which only admins see.
func severalOwners[T interface{ GetOwner() string }](list []T) bool {
	for _, x := range list {
		if x.GetOwner() != list[0].GetOwner() {
			return true
		}
	}
	return false
}

// outcome returns the summary of a task, and why it failed or was stopped.
func outcome(summary, reason string) string {
	if reason == "" {
		return summary
	}
	if summary == "" {
		return reason
	}
	return summary + " (" + reason + ")"
}
