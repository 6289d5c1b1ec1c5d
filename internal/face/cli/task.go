package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTask() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:     "task",
		Aliases: []string{"tasks"},
		Short:   "Give agents work, follow it, wait for it, stop it",
		Long: `A task is one unit of work for an agent: a description in, output and a summary
out. An agent does one task at a time.

"fleet task run AGENT ... --follow" is the usual way: it starts a task, shows
what the agent writes, and ends when the task does.`,
		Example: `  fleet task run papi "make test" --follow
  id=$(fleet task start papi "make test" -q) && fleet task wait "$id"
  fleet task list papi`,
	})
	cmd.AddCommand(
		p.newTaskRun(), p.newTaskStart(), p.newTaskShow(), p.newTaskList(),
		p.newTaskStop(), p.newTaskWait(), p.newTaskMessage(),
	)
	return cmd
}

func (p *program) newTaskList() *cobra.Command {
	var pages paging
	cmd := &cobra.Command{
		Use:     "list AGENT",
		Aliases: []string{"ls", "history"},
		Short:   "List the tasks of an agent, newest first",
		Long: `List the tasks of an agent, newest first, by pages.

"fleet task show ID" tells more of one of them.`,
		Example: `  fleet task list papi
  fleet task list papi --page 2 --page-size 50
  fleet task list papi -o json | jq '.tasks[] | select(.status == "failed")'`,
		Args:              args("AGENT"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req := &fleetv1.ShowAgentTaskHistoryRequest{AgentName: args[0]}
			req.Page, req.PageSize = pages.values(s.cmd)
			resp, err := s.fleet.ShowAgentTaskHistory(ctx, req)
			if err != nil {
				return err
			}
			return s.print(resp, func() {
				s.showTasks(resp.GetTasks(), "There are no tasks here. Start one: fleet task run "+args[0]+` "..." --follow`)
				if resp.GetTotalPages() > 1 {
					s.hint("Page %d of %d, %d tasks.", resp.GetPage(), resp.GetTotalPages(), resp.GetTotalCount())
				}
			})
		}),
	}
	pages.addTo(cmd, "tasks", "20")
	return cmd
}

// showTasks prints tasks as a table.
func (s *session) showTasks(tasks []*fleetv1.Task, none string) {
	g := newGrid("ID", "STATUS", "SOURCE", "AGE", "TOOK", "SUMMARY")
	for _, t := range tasks {
		g.row(t.GetId(), statusCell(t.GetStatus().String()), t.GetSource().String(), s.age(t.GetCreatedAt()),
			s.took(t.GetStartedAt(), t.GetCompletedAt()), outcome(t.GetSummary(), t.GetReason()))
	}
	s.show(g, none)
}

// outcome is the summary of a task, and why it failed or was stopped.
func outcome(summary, reason string) string {
	if reason == "" {
		return summary
	}
	if summary == "" {
		return reason
	}
	return summary + " (" + reason + ")"
}

func (p *program) newTaskStop() *cobra.Command {
	var requestID string
	cmd := &cobra.Command{
		Use:   "stop AGENT",
		Short: "Stop the task that an agent is working on",
		Long: `Stop the task that an agent is working on and wait until it has ended. The agent
is interrupted first, and killed if it does not react; its workspace goes on.

What comes next: "fleet task list AGENT" shows how far it came.`,
		Example:           `  fleet task stop papi`,
		Args:              args("AGENT"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			var resp *fleetv1.StopAgentTaskResponse
			err := s.during(ctx, args[0], "stopping the task of "+args[0], func() (err error) {
				resp, err = s.fleet.StopAgentTask(ctx, &fleetv1.StopAgentTaskRequest{AgentName: args[0], RequestId: requestID})
				return err
			})
			if err != nil {
				return err
			}
			return s.print(resp, func() { s.say(resp.GetMessage(), resp.GetTask().GetId()) })
		}),
	}
	addRequestID(cmd, &requestID)
	return cmd
}

func (p *program) newTaskMessage() *cobra.Command {
	var requestID string
	cmd := &cobra.Command{
		Use:   "message AGENT TEXT|-|@FILE",
		Short: "Send a follow-up message to the task that an agent is working on",
		Long: `Send a message to the agent about the task it is working on. Not every agent can
take messages while it works; the error says so.`,
		Example: `  fleet task message papi "Leave the database tests out"
  fleet task message papi @notes.md`,
		Args:              args("AGENT TEXT"),
		ValidArgsFunction: p.completeAgent,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			text, err := s.text(args[1], "message")
			if err != nil {
				return err
			}
			resp, err := s.fleet.SendTaskMessage(ctx, &fleetv1.SendTaskMessageRequest{AgentName: args[0], Message: text, RequestId: requestID})
			if err != nil {
				return err
			}
			return s.print(resp, func() {
				s.say(resp.GetMessage(), resp.GetTask().GetId())
				s.hint("Follow it: fleet watch --task %s --follow", resp.GetTask().GetId())
			})
		}),
	}
	addRequestID(cmd, &requestID)
	return cmd
}
