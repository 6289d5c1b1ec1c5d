package sqlite

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const putChanges = `INSERT INTO task_changes (task_id, changes) VALUES (?, ?)
	ON CONFLICT (task_id) DO UPDATE SET changes = excluded.changes`

func (t *readTx) Changes(taskID string) (*fleet.Changes, error) {
	return first(t, scanChanges, `SELECT changes FROM task_changes WHERE task_id = ?`, taskID)
}

func (t *tx) putChanges(taskID string, c *fleet.Changes) error {
	text, err := json.Marshal(c)
	switch {
	case err != nil:
	case c == nil:
		_, err = t.exec(`DELETE FROM task_changes WHERE task_id = ?`, taskID)
	default:
		_, err = t.exec(putChanges, taskID, string(text))
	}
	if err != nil {
		return t.failed(fmt.Errorf("keep the changes of task %s: %w", taskID, err))
	}
	return nil
}

func scanChanges(row scanner) (*fleet.Changes, error) {
	var text string
	if err := row.Scan(&text); err != nil {
		return nil, err
	}
	c := &fleet.Changes{}
	return c, json.Unmarshal([]byte(text), c)
}
