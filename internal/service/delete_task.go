package service

import (
	"context"

	"fleet/internal/fleet"
)

// DeleteTask removes a task that has ended, with its payload, messages and events, and returns its id. TASK_RUNNING if
// it has not ended.
func (s *Service) DeleteTask(ctx context.Context, id, requestID string) (string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", fleet.Invalid(fleet.ReasonInvalidArgument, "task_id", "task_id is required").Next("{list_tasks} gives ids")
	}
	c, err := newCall(p, "DeleteTask", requestID, id)
	if err != nil {
		return "", err
	}
	var task *fleet.Task
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				task = &fleet.Task{ID: old.TaskID, AgentUID: old.AgentUID}
			}
			return err
		}
		if task, err = s.task(tx, p, id); err != nil {
			return err
		}
		if task.Active() {
			return fleet.Errorf(fleet.ReasonTaskRunning, "task %q has not ended", task.ID).With("task_id", task.ID).With("agent_name", task.AgentName).Next("stop it with {stop_agent_task} first")
		}
		if err := tx.DeleteTask(task.ID); err != nil {
			return err
		}
		now := s.now()
		if err := c.remember(tx, task.AgentUID, task.ID, now); err != nil {
			return err
		}
		return tx.Append(task.Event(fleet.EventTaskDeleted, now, "task deleted by "+p.Name))
	})
	if err != nil {
		return "", err
	}
	s.ended.forget(task.AgentUID)
	return task.ID, nil
}

// startedTask returns the task that an earlier call with the same request id started. TASK_NOT_FOUND if it was deleted
// since.
func startedTask(tx fleet.ReadTx, old *fleet.Request) (*fleet.Task, error) {
	t, err := tx.Task(old.TaskID)
	if err == nil && t == nil {
		err = fleet.Errorf(fleet.ReasonTaskNotFound, "this request started task %q, which was deleted since: use another request_id to start a new one", old.TaskID).
			With("task_id", old.TaskID)
	}
	return t, err
}
