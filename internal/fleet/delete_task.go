package fleet

import "context"

// DeleteTask removes a task that has ended, with its payload, messages and events, and returns its id. TASK_RUNNING if
// it has not ended.
func (s *Service) DeleteTask(ctx context.Context, id, requestID string) (string, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return "", err
	}
	if id == "" {
		return "", Invalid(ReasonInvalidArgument, "task_id", "task_id is required").Next("{list_tasks} gives ids")
	}
	c, err := newCall(p, "DeleteTask", requestID, id)
	if err != nil {
		return "", err
	}
	var task *Task
	err = s.store.Update(ctx, func(tx Tx) error {
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				task = &Task{ID: old.TaskID, AgentUID: old.AgentUID}
			}
			return err
		}
		if task, err = s.task(tx, p, id); err != nil {
			return err
		}
		if task.Active() {
			return Errorf(ReasonTaskRunning, "task %q has not ended", task.ID).With("task_id", task.ID).With("agent_name", task.AgentName).Next("stop it with {stop_agent_task} first")
		}
		if err := tx.DeleteTask(task.ID); err != nil {
			return err
		}
		now := s.now()
		if err := c.remember(tx, task.AgentUID, task.ID, now); err != nil {
			return err
		}
		return tx.Append(task.event(EventTaskDeleted, now, "task deleted by "+p.Name))
	})
	if err != nil {
		return "", err
	}
	s.ended.forget(task.AgentUID)
	return task.ID, nil
}

// startedTask returns the task that an earlier call with the same request id started. TASK_NOT_FOUND if it was deleted
// since.
func startedTask(tx ReadTx, old *Request) (*Task, error) {
	t, err := tx.Task(old.TaskID)
	if err == nil && t == nil {
		err = Errorf(ReasonTaskNotFound, "this request started task %q, which was deleted since: use another request_id to start a new one", old.TaskID).
			With("task_id", old.TaskID)
	}
	return t, err
}
