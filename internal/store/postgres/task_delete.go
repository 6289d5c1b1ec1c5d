package postgres

import (
	"errors"
	"fmt"

	"fleet/internal/store/record"
)

// dropTask are the statements that remove the rows that refer to a task, and then the task.
var dropTask = []string{
	`DELETE FROM payloads WHERE task_id = $1`, dropRest, `DELETE FROM task_changes WHERE task_id = $1`, `DELETE FROM task_checks WHERE task_id = $1`, `DELETE FROM task_queue WHERE task_id = $1`,
	`DELETE FROM task_reviews WHERE task_id = $1`, `DELETE FROM task_landings WHERE task_id = $1`,
	`DELETE FROM task_attachments WHERE task_id = $1`,
	`DELETE FROM messages WHERE task_id = $1`, `DELETE FROM questions WHERE task_id = $1`,
	`DELETE FROM inbox WHERE task_id = $1`, // before the log, because events move from the inbox to the log
	`DELETE FROM events WHERE task_id <> '' AND task_id = $1`, `DELETE FROM tasks WHERE id = $1`,
}

// deleteTask deletes the task. It deletes the rows that refer to the task first. It fails if the task does not exist or
// has not ended.
func (t *tx) deleteTask(id string) error {
	task, err := t.Task(id)
	switch {
	case err != nil:
		return err
	case task == nil:
		err = errors.New("it is not in the store")
	case task.Active():
		err = errors.New("it has not ended")
	}
	t.lock(record.LockTask, id)
	for _, query := range dropTask {
		if err == nil {
			err = t.exec(query, id)
		}
	}
	if err != nil {
		return t.fail(fmt.Errorf("delete task %s: %w", id, err))
	}
	return nil
}
