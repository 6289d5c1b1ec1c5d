package cli

import (
	"context"

	"github.com/spf13/cobra"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTask() *cobra.Command {
	cmd := Group(&cobra.Command{
		Use:     "task",
		Aliases: []string{"tasks"},
		Short:   "Give agents work, follow it, wait for it, stop it",
		Long: `A task is one unit of work for an agent. It has a description, and produces output and
a summary. An agent does one task at a time.

"fleet task run AGENT ... --follow" starts a task, shows what the agent writes, and
ends when the task does.`,
		Example: `  fleet task run papi "make test" --follow
  id=$(fleet task start papi "make test" -q) && fleet task wait "$id"
  fleet task list
  fleet task list papi`,
	})
	cmd.AddCommand(
		calls(p.newTaskRun(), "start_agent_task"),
		p.newTaskStart(),
		calls(p.newTaskShow(), "show_task", "task_id"),
		calls(p.newTaskDiff(), "show_task_changes", "task_id"),
		calls(p.newTaskOutput(), "show_task_output", "task_id"),
		calls(p.newTaskDownload(), "download_task_payload", "task_id"),
		p.newTaskLogs(),
		calls(p.newTaskSteps(), "list_task_steps", "task_id"),
		calls(calls(p.newTaskList(), "list_tasks"), "show_agent_task_history", "agent_name"),
		calls(p.newTaskRetry(), "retry_task", "task_id"),
		calls(p.newTaskStop(), "stop_agent_task", "agent_name"),
		calls(p.newTaskWait(), "wait_tasks", "--agent", "agent_name"),
		calls(p.newTaskMessage(), "send_task_message"),
		calls(p.newTaskDelete(), "delete_task", "task_id"),
	)
	return cmd
}

func (p *program) newTaskStop() *cobra.Command {
	var requestID string
	cmd := &cobra.Command{
		Use:   "stop AGENT",
		Short: "Stop the task that an agent is working on",
		Long: `Stop the task that an agent is working on and wait until it has ended. The agent is
interrupted first, and killed if it does not react. Its workspace keeps running.

Next, "fleet task list AGENT" shows how the task ended.`,
		Example: `  fleet task stop papi`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			var resp *fleetv1.StopAgentTaskResponse
			err := s.during(ctx, args[0], "stopping the task of "+args[0], func() (err error) {
				resp, err = s.fleet.StopAgentTask(ctx, &fleetv1.StopAgentTaskRequest{AgentName: args[0], RequestId: requestID})
				return err
			})
			return s.print(resp, err, func() { s.say(resp.GetMessage(), resp.GetTask().GetId()) })
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
		Long: `Send a message to the agent about the task it is working on. Some agents cannot take
messages while they work; the error says so.`,
		Example: `  fleet task message papi "Leave the database tests out"
  fleet task message papi @notes.md`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			text, err := s.text(args[1], "message")
			if err != nil {
				return err
			}
			resp, err := s.fleet.SendTaskMessage(ctx, &fleetv1.SendTaskMessageRequest{AgentName: args[0], Message: text, RequestId: requestID})
			return s.print(resp, err, func() {
				s.say(resp.GetMessage(), resp.GetTask().GetId())
				s.hint("Follow it: fleet watch --task %s --follow", resp.GetTask().GetId())
			})
		}),
	}
	addRequestID(cmd, &requestID)
	return cmd
}
