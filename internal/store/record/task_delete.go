package record

import (
	"errors"
	"fmt"
	"slices"
)

// These delete the rows of a task in one table.
const (
	DeletePayload   = `DELETE FROM payloads WHERE task_id = ?`
	DeleteEvents    = `DELETE FROM events WHERE task_id <> '' AND task_id = ?`
	DeleteMessages  = `DELETE FROM messages WHERE task_id = ?`
	DeleteQuestions = `DELETE FROM questions WHERE task_id = ?`
)

// deleteTaskRows has the statements that delete the rows that refer to a task, and then the task.
var deleteTaskRows = []string{
	DeletePayload, `DELETE FROM task_descriptions WHERE task_id = ?`, deleteChanges, deleteChecks, `DELETE FROM task_queue WHERE task_id = ?`,
	`DELETE FROM task_reviews WHERE task_id = ?`, `DELETE FROM task_landings WHERE task_id = ?`, `DELETE FROM task_attachments WHERE task_id = ?`,
	DeleteMessages, DeleteQuestions, DeleteEvents, `DELETE FROM tasks WHERE id = ?`,
}

// deleteTask deletes the task with the id, and first the rows that refer to it. It fails if the task does not exist or has not
// ended.
func (t Tx) deleteTask(id string) error {
	task, err := t.DB.Task(id)
	if err != nil {
		return err
	}
	explain := func(err error) error { return fmt.Errorf("delete task %s: %w", id, err) }
	switch {
	case task == nil:
		return t.DB.Fail(explain(errors.New("it is not in the store")))
	case task.Active():
		return t.DB.Fail(explain(errors.New("it has not ended")))
	}
	t.DB.Lock(LockTask, id)
	for _, query := range slices.Concat(t.DB.Dialect().DeleteTaskRows, deleteTaskRows) {
		if err := t.DB.Exec(explain, query, id); err != nil {
			return err
		}
	}
	return nil
}
