package service

import (
	"context"

	"fleet/internal/fleet"
)

// DeleteTask deletes a task that has ended, with its payload, messages and events, and returns its id. The error is TASK_RUNNING
// if the task has not ended, even if it is pending.
func (s *Service) DeleteTask(ctx context.Context, id, requestID string) (string, error) {
	if id == "" {
		return "", fleet.InvalidField("task_id", "task_id is required").Next("{list_tasks} gives ids")
	}
	result, _, err := s.Once(ctx, Call{Method: "DeleteTask", RequestID: requestID, Body: id}, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		task, err := s.task(tx, p, id, fleet.AccessOwn)
		if err != nil {
			return CallResult{}, err
		}
		if task.Active() {
			return CallResult{}, fleet.Errorf(fleet.ReasonTaskRunning, "task %q has not ended", task.ID).With("task_id", task.ID).With("agent_name", task.AgentName).Next("stop it with {stop_agent_task} first")
		}
		if err := tx.Delete(&fleet.Task{ID: task.ID}); err != nil {
			return CallResult{}, err
		}
		return CallResult{AgentUID: task.AgentUID, ObjectID: task.ID}, tx.Append(task.Event(fleet.EventTaskDeleted, s.now(), "task deleted by "+p.Name))
	})
	return result.ObjectID, err
}
