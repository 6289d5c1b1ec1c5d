package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const (
	putChecks = `INSERT INTO task_checks (task_id, checks) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET checks = excluded.checks`
	deleteChecks = `DELETE FROM task_checks WHERE task_id = ?`
)

// Checks returns the recorded state of the task's checks, see fleet.ReadTx.
func (t ReadTx) Checks(taskID string) (*fleet.TaskChecks, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryFirst(t.DB, scanJSON[fleet.TaskChecks], `SELECT checks FROM task_checks WHERE task_id = ?`, taskID)
}

func (t Tx) putChecks(taskID string, c *fleet.TaskChecks) error {
	return t.putJSON(func(err error) error { return fmt.Errorf("keep the checks of task %s: %w", taskID, err) }, putChecks, taskID, c, taskID)
}
