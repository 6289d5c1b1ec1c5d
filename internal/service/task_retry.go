package service

import (
	"context"

	"fleet/internal/fleet"
)

// RetryTask starts an ended task again: it starts a new task of the same agent with the same description, time limit, checks, options,
// labels and attachments. The error is TASK_RUNNING if the task has not ended, AGENT_NOT_FOUND if its agent was deleted, and
// INVALID_ARGUMENT if the task belongs to another toolset, was used on a terminal, or its attachments were removed. Otherwise the errors
// are those of StartTask.
func (s *Service) RetryTask(ctx context.Context, id, requestID string) (*fleet.Task, error) {
	c := Call{Method: "RetryTask", RequestID: requestID, Body: id}
	task, err := s.changeTask(ctx, c, id, func(tx fleet.Tx, p fleet.Principal, first *fleet.Task) (*fleet.Task, error) {
		if first.Active() {
			return nil, fleet.Errorf(fleet.ReasonTaskRunning, "task %q has not ended", first.ID).With("task_id", first.ID).With("agent_name", first.AgentName).
				Next("wait for it with {wait_tasks}, or stop it with {stop_agent_task}")
		}
		if terminal := first.Options.Attached; terminal != nil {
			return nil, fleet.Errorf(fleet.ReasonInvalidArgument, "task %q cannot be started again: in it, %s used the program of the agent on a terminal", first.ID, terminal.By).With("field", "task_id")
		}
		a, err := tx.Agent(first.AgentUID)
		switch {
		case err != nil:
			return nil, err
		case a == nil || !a.DeletedAt.IsZero() || a.Desired == fleet.DesiredDeleted:
			return nil, fleet.Errorf(fleet.ReasonAgentNotFound, "agent %q of task %q was deleted, so the task cannot be started again", first.AgentName, first.ID).
				With("agent_name", first.AgentName).Next("{start_agent_task} starts it on another agent, and {restore_agent} may bring the agent back")
		case a.Toolset != fleet.ToolsetFleet || first.SessionID != "":
			return nil, fleet.Errorf(fleet.ReasonInvalidArgument, "task %q belongs to the toolset %s: start it again with a tool of that toolset", first.ID, a.Toolset).With("field", "task_id")
		}
		r := StartTaskRequest{Description: first.Description, Timeout: first.Timeout, Options: first.Options, Labels: first.Labels, retryOf: first.ID}
		if known, err := tx.Checks(first.ID); err != nil {
			return nil, err
		} else if known != nil {
			r.Checks = known.Requested
		}
		if first.Options.Attachments > 0 {
			if r.Attachments, err = tx.Attachments(first.ID); err != nil {
				return nil, err
			}
			if len(r.Attachments) == 0 {
				return nil, fleet.InvalidField("task_id", "the attachments of task %q were removed after their retention period", first.ID).
					Next("{start_agent_task} starts the task again with new attachments")
			}
		}
		return s.startTask(ctx, tx, p, &fleet.AgentView{Agent: *a}, r)
	})
	if err != nil {
		return nil, err
	}
	return asStarted(task), nil
}
