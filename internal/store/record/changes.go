package record

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const (
	putChanges = `INSERT INTO task_changes (task_id, changes) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET changes = excluded.changes`
	deleteChanges = `DELETE FROM task_changes WHERE task_id = ?`
	putChecks     = `INSERT INTO task_checks (task_id, checks) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET checks = excluded.checks`
)

// Changes returns the recorded changes of the task, see fleet.ReadTx.
func (t ReadTx) Changes(taskID string) (*fleet.Changes, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryFirst(t.DB, scanJSON[fleet.Changes], `SELECT changes FROM task_changes WHERE task_id = ?`, taskID)
}

// Checks returns the recorded state of the task's checks, see fleet.ReadTx.
func (t ReadTx) Checks(taskID string) (*fleet.TaskChecks, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryFirst(t.DB, scanJSON[fleet.TaskChecks], `SELECT checks FROM task_checks WHERE task_id = ?`, taskID)
}

func (t Tx) putChanges(taskID string, c *fleet.Changes) error {
	explain := func(err error) error { return fmt.Errorf("keep the changes of task %s: %w", taskID, err) }
	if c == nil {
		t.DB.Lock(LockTask, taskID)
		return t.DB.Exec(explain, deleteChanges, taskID)
	}
	return t.putJSON(explain, putChanges, taskID, c)
}

func (t Tx) putChecks(taskID string, c *fleet.TaskChecks) error {
	return t.putJSON(func(err error) error { return fmt.Errorf("keep the checks of task %s: %w", taskID, err) }, putChecks, taskID, c)
}

func (t Tx) putJSON(explain func(error) error, query, taskID string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return t.DB.Fail(explain(err))
	}
	t.DB.Lock(LockTask, taskID)
	return t.DB.Exec(explain, query, taskID, string(text))
}

// scanJSON scans a value from a row with its JSON.
func scanJSON[T any](row Scanner) (*T, error) {
	v := new(T)
	return v, row.Scan(jsonColumn{v})
}
