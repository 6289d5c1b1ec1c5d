package sqlite

import (
	"errors"
	"fmt"
)

const (
	dropAttachments = `DELETE FROM task_attachments WHERE task_id = ?`
	dropPayload     = `DELETE FROM payloads WHERE task_id = ?`
	dropEvents      = `DELETE FROM events WHERE task_id <> '' AND task_id = ?`
	dropChanges     = `DELETE FROM task_changes WHERE task_id = ?`
	dropChecks      = `DELETE FROM task_checks WHERE task_id = ?`
	dropEntry       = `DELETE FROM task_queue WHERE task_id = ?`
	dropReviews     = `DELETE FROM task_reviews WHERE task_id = ?`
	dropLanding     = `DELETE FROM task_landings WHERE task_id = ?`
	dropMessages    = `DELETE FROM messages WHERE task_id = ?`
	dropQuestions   = `DELETE FROM questions WHERE task_id = ?`
	dropTask        = `DELETE FROM tasks WHERE id = ?`
)

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
	for _, query := range []string{dropPayload, dropRest, dropChanges, dropChecks, dropEntry, dropReviews, dropLanding, dropAttachments, dropMessages, dropQuestions, dropEvents, dropTask} {
		if err == nil {
			_, err = t.exec(query, id)
		}
	}
	if err != nil {
		return t.fail(fmt.Errorf("delete task %s: %w", id, err))
	}
	return nil
}
