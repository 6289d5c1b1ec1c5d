package sqlite

import (
	"encoding/json"
	"fmt"

	"fleet/internal/fleet"
)

const putChecks = `INSERT INTO task_checks (task_id, checks) VALUES (?, ?)
	ON CONFLICT (task_id) DO UPDATE SET checks = excluded.checks`

func (t *readTx) Checks(taskID string) (*fleet.TaskChecks, error) {
	return first(t, scanChecks, `SELECT checks FROM task_checks WHERE task_id = ?`, taskID)
}

func (t *tx) putChecks(taskID string, c *fleet.TaskChecks) error {
	text, err := json.Marshal(c)
	if err == nil {
		_, err = t.exec(putChecks, taskID, string(text))
	}
	if err != nil {
		return t.failed(fmt.Errorf("keep the checks of task %s: %w", taskID, err))
	}
	return nil
}

func scanChecks(row scanner) (*fleet.TaskChecks, error) {
	var text string
	if err := row.Scan(&text); err != nil {
		return nil, err
	}
	c := &fleet.TaskChecks{}
	return c, json.Unmarshal([]byte(text), c)
}
