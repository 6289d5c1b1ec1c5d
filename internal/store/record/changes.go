package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const (
	putChanges = `INSERT INTO task_changes (task_id, changes) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET changes = excluded.changes`
	deleteChanges = `DELETE FROM task_changes WHERE task_id = ?`
)

// Changes returns the recorded changes of the task, see fleet.ReadTx.
func (t ReadTx) Changes(taskID string) (*fleet.Changes, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryFirst(t.DB, scanJSON[fleet.Changes], `SELECT changes FROM task_changes WHERE task_id = ?`, taskID)
}

func (t Tx) putChanges(taskID string, c *fleet.Changes) error {
	explain := func(err error) error { return fmt.Errorf("keep the changes of task %s: %w", taskID, err) }
	if c == nil {
		t.DB.Lock(LockTask, taskID)
		return t.DB.Exec(explain, deleteChanges, taskID)
	}
	return t.putJSON(explain, putChanges, taskID, c, taskID)
}
