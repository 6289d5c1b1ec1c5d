package postgres

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const putChanges = `INSERT INTO task_changes (task_id, changes) VALUES ($1, $2)
	ON CONFLICT (task_id) DO UPDATE SET changes = excluded.changes`

func (t *readTx) Changes(taskID string) (*fleet.Changes, error) {
	t.lock(lockTask, taskID)
	return first(t, scanChanges, `SELECT changes FROM task_changes WHERE task_id = $1`, taskID)
}

func (t *tx) putChanges(taskID string, c *fleet.Changes) error {
	text, err := json.Marshal(c)
	switch {
	case err != nil:
	case c == nil:
		t.lock(lockTask, taskID)
		err = t.exec(`DELETE FROM task_changes WHERE task_id = $1`, taskID)
	default:
		t.lock(lockTask, taskID)
		err = t.exec(putChanges, taskID, string(text))
	}
	if err != nil {
		return t.failed(fmt.Errorf("keep the changes of task %s: %w", taskID, err))
	}
	return nil
}

func scanChanges(row scanner) (*fleet.Changes, error) {
	var text []byte
	if err := row.Scan(&text); err != nil {
		return nil, err
	}
	c := &fleet.Changes{}
	return c, json.Unmarshal(text, c)
}
