package record

import (
	"encoding/json"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

const (
	putLanding = `INSERT INTO task_landings (task_id, state, landing) VALUES (?, ?, ?)
		ON CONFLICT (task_id) DO UPDATE SET state = excluded.state, landing = excluded.landing`
	selectLandings = `SELECT task_id, state, landing FROM task_landings WHERE `
	selectReviews  = `SELECT id, task_id, review FROM task_reviews WHERE task_id = ? ORDER BY n`
)

var insertReview = insertStatement("task_reviews", "id, task_id, review")

// Landings returns the matching landings, see fleet.ReadTx.
func (t ReadTx) Landings(f fleet.LandingFilter) ([]*fleet.Landing, error) {
	column, values := `task_id `, f.TaskIDs
	if len(f.States) > 0 {
		column, values = `state `, texts(f.States)
	}
	if len(values) == 0 {
		return nil, nil
	}
	for _, id := range f.TaskIDs {
		t.DB.Lock(LockTask, id)
	}
	return readLocked(t.DB, LockTask, func(l *fleet.Landing) string { return l.TaskID }, func() ([]*fleet.Landing, error) {
		return queryAll(t.DB, scanLanding, selectLandings+column+t.DB.Dialect().In, List(values))
	})
}

// LandingCondition returns the condition that the work of a task, whose id is in the column, is in one of the states. in is Dialect.In,
// and arg adds an argument.
func LandingCondition(column string, states []fleet.LandingState, in string, arg func(any) string) string {
	return column + ` IN (SELECT task_id FROM task_landings WHERE state ` + strings.Replace(in, `?`, arg(List(texts(states))), 1) + `)`
}

func (t Tx) putLanding(taskID string, l *fleet.Landing) error {
	explain := func(err error) error { return fmt.Errorf("keep the landing of task %s: %w", taskID, err) }
	text, err := json.Marshal(l)
	if err != nil {
		return t.DB.Fail(explain(err))
	}
	t.DB.Lock(LockTask, taskID)
	return t.DB.Exec(explain, putLanding, taskID, string(l.State), string(text))
}

func scanLanding(row Scanner) (*fleet.Landing, error) {
	l := &fleet.Landing{}
	return l, row.Scan(&l.TaskID, (*string)(&l.State), jsonColumn{l})
}

// Reviews returns the reviews of the task, see fleet.ReadTx.
func (t ReadTx) Reviews(taskID string) ([]*fleet.Review, error) {
	t.DB.Lock(LockTask, taskID)
	return queryAll(t.DB, scanReview, selectReviews, taskID)
}

func (t Tx) insertReview(r *fleet.Review) error {
	explain := func(err error) error { return fmt.Errorf("add review %s: %w", r.ID, err) }
	text, err := json.Marshal(r)
	if err != nil {
		return t.DB.Fail(explain(err))
	}
	t.DB.Lock(LockTask, r.TaskID)
	return t.DB.Exec(explain, insertReview, r.ID, r.TaskID, string(text))
}

func scanReview(row Scanner) (*fleet.Review, error) {
	r := &fleet.Review{}
	return r, row.Scan(&r.ID, &r.TaskID, jsonColumn{r})
}

// texts returns the values as texts.
func texts[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}
