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
		callsTool(callsTool(p.newTaskRun(), "start_agent_task"), "run_task"),
		p.newTaskStart(),
		p.newTaskQueue(),
		p.newTaskFanOut(), p.newTaskCompare(), p.newTaskKeep(),
		callsTool(p.newTaskShow(), "show_task", "task_id"),
		callsTool(p.newTaskDiff(), "show_task_changes", "task_id"),
		callsTool(p.newTaskOutput(), "show_task_output", "task_id"),
		callsTool(p.newTaskDownload(), "download_task_payload", "task_id"),
		p.newTaskReview(), p.newTaskReviews(), p.newTaskLand(), p.newTaskPush(), p.newTaskPR(), p.newTaskAbandon(),
		p.newTaskLogs(),
		callsTool(p.newTaskSteps(), "list_task_steps", "task_id"),
		p.newTaskTree(),
		callsTool(callsTool(p.newTaskList(), "list_tasks"), "show_agent_task_history", "agent_name"),
		callsTool(p.newTaskRetry(), "retry_task", "task_id"), p.newTaskRaise(),
		callsTool(p.newTaskStop(), "stop_agent_task", "agent_name"),
		callsTool(p.newTaskWait(), "wait_tasks", "--agent", "agent_name"),
		callsTool(p.newTaskMessage(), "send_task_message"),
		p.newTaskLabel(),
		callsTool(p.newTaskDelete(), "delete_task", "task_id"),
	)
	return cmd
}

func (p *program) newTaskStop() *cobra.Command {
	req := &fleetv1.StopAgentTaskRequest{}
	cmd := &cobra.Command{
		Use:   "stop [AGENT]...",
		Short: "Stop the tasks that agents are working on",
		Long: `Stop the task that each agent is working on and wait until it has ended. The agent is
interrupted first, and killed if it does not react. Its workspace keeps running.
"fleet queue stop ID" stops a task by its id, also one that waits. --selector selects
tasks by their labels. --selector and --all include tasks that wait.

Next, "fleet task list AGENT" shows how the task ended.`,
		Example: `  fleet task stop papi
  fleet task stop papi sony
  fleet task stop -l team=web --dry-run`,
		RunE: p.action(func(ctx context.Context, s *session, names []string) error {
			if err := checkRequestID(req, names); err != nil {
				return err
			}
			return forEachAgent(ctx, s, "stopping the task of", names, func(ctx context.Context, name string) (*fleetv1.StopAgentTaskResponse, error) {
				return s.fleet.StopAgentTask(ctx, &fleetv1.StopAgentTaskRequest{AgentName: name, RequestId: req.GetRequestId()})
			}, func(_ int, resp *fleetv1.StopAgentTaskResponse, err error) error {
				return s.print(resp, err, func() { s.printResult(resp.GetMessage(), resp.GetTask().GetId()) })
			})
		}),
	}
	addRequestID(cmd, req)
	return p.addBulk(cmd, "tasks that run or wait", bulkCommand{operation: fleetv1.PlanBulkRequest_stop_task, progress: "stopping tasks", question: "Stop", request: req})
}

func (p *program) newTaskMessage() *cobra.Command {
	req := &fleetv1.SendTaskMessageRequest{}
	cmd := &cobra.Command{
		Use:   "message [AGENT]... TEXT|-|@FILE",
		Short: "Send a follow-up message to the task that an agent is working on",
		Long: `Send a message to the agent about the task it is working on. Some agents cannot take
messages while they work; the error says so.`,
		Example: `  fleet task message papi "Leave the database tests out"
  fleet task message papi @notes.md
  fleet task message -l team=web "Stop before the release"`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			var err error
			req.AgentName = args[0]
			if req.Message, err = s.readArgument(args[1], "message"); err != nil {
				return err
			}
			resp, err := s.fleet.SendTaskMessage(ctx, req)
			return s.print(resp, err, func() {
				s.printResult(resp.GetMessage(), resp.GetTask().GetId())
				s.hint("Follow it: fleet watch --task %s --follow", resp.GetTask().GetId())
			})
		}),
	}
	addRequestID(cmd, req)
	return p.addBulk(cmd, "agents", bulkCommand{
		takesSeveral: true,
		operation:    fleetv1.PlanBulkRequest_message, progress: "sending messages", request: req,
		names: func(args []string) []string { return args[:len(args)-1] },
		fill: func(s *session, bulk *fleetv1.PlanBulkRequest, args []string) (err error) {
			bulk.Text, err = s.readArgument(args[len(args)-1], "message")
			return err
		},
	})
}

func (p *program) newTaskDelete() *cobra.Command {
	return &cobra.Command{
		Use:     "delete ID...",
		Aliases: []string{"rm"},
		Short:   "Delete tasks that have ended, with their payloads",
		Long: `Delete tasks that have ended, with their payloads, messages and events. What the
agents made in their workspaces stays.

The beginning of an id, at least 6 characters, is enough. A task that has not ended
cannot be deleted: "fleet task stop AGENT" stops it.`,
		Example: `  fleet task delete 3f2a1b0c
  fleet task list --status failed -q | xargs -r fleet task delete`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			var firstErr error
			for _, id := range args {
				resp, err := s.fleet.DeleteTask(ctx, &fleetv1.DeleteTaskRequest{TaskId: id})
				err = s.print(resp, err, func() { s.printResult(resp.GetMessage()+": "+resp.GetTaskId(), resp.GetTaskId()) })
				if err == nil {
					continue
				}
				f := s.explain(ctx, err, s.target)
				if firstErr == nil {
					firstErr = f
				} else {
					s.printError(f)
				}
				if ctx.Err() != nil || f.code == ExitUnavailable {
					break
				}
			}
			return firstErr
		}),
	}
}

func (p *program) newTaskRetry() *cobra.Command {
	req := &fleetv1.RetryTaskRequest{}
	var follow bool
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Repeat a task that has ended",
		Long: `Repeat a task that has ended, as a new task of the same agent, with the same
description, time limit, checks and options. The command prints the id of the new task.

The beginning of an id, at least 6 characters, is enough. The agent must be idle.`,
		Example: `  fleet task retry 3f2a1b0c
  fleet task retry 3f2a1b0c --follow`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			req.TaskId = args[0]
			resp, err := s.fleet.RetryTask(ctx, req)
			switch {
			case err != nil:
				return err
			case follow:
				return s.follow(ctx, resp.GetTask(), ctrlCDetaches)
			}
			return s.printStarted(resp)
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show what the agent writes until the task has ended")
	addRequestID(cmd, req)
	return cmd
}
