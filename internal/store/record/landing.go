package record

import (
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

const (
	putLanding = `INSERT INTO task_landings (task_id, state, landing) VALUES (?, ?, ?)
		ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, landing = excluded.landing`
	selectLandings = `SELECT task_id, state, landing FROM task_landings WHERE `
)

// Landings returns the matching landings, see fleet.ReadTx.
func (t ReadTx) Landings(f fleet.LandingFilter) ([]*fleet.Landing, error) {
	column, values := `task_id `, f.TaskIDs
	if len(f.States) > 0 {
		column, values = `state `, toTexts(f.States)
	}
	if len(values) == 0 {
		return nil, nil
	}
	t.DB.Lock(LockTask, f.TaskIDs...)
	return ReadLocked(t.DB, LockTask, func(l *fleet.Landing) string { return l.TaskID }, func() ([]*fleet.Landing, error) {
		return QueryAll(t.DB, scanLanding, selectLandings+column+t.DB.Dialect().InList, TextList(values))
	})
}

// LandingCondition returns the condition that the landing of a task is in one of the states. column has the id of the task. in is
// Dialect.InList, and arg adds an argument of the query and returns its placeholder.
func LandingCondition(column string, states []fleet.LandingState, in string, arg func(any) string) string {
	return column + ` IN (SELECT task_id FROM task_landings WHERE state ` + strings.Replace(in, `?`, arg(TextList(toTexts(states))), 1) + `)`
}

func (t Tx) putLanding(taskID string, l *fleet.Landing) error {
	explain := func(err error) error { return fmt.Errorf("keep the landing of task %s: %w", taskID, err) }
	return t.putJSON(explain, putLanding, taskID, l, taskID, string(l.State))
}

func scanLanding(row Scanner) (*fleet.Landing, error) {
	l := &fleet.Landing{}
	return l, row.Scan(&l.TaskID, (*string)(&l.State), jsonColumn{l})
}
