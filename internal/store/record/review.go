package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const selectReviews = `SELECT id, task_id, review FROM task_reviews WHERE task_id = ? ORDER BY n`

var insertReview = insertStatement("task_reviews", "id, task_id, review")

// Reviews returns the reviews of the task, see fleet.ReadTx.
func (t ReadTx) Reviews(taskID string) ([]*fleet.Review, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryAll(t.DB, scanReview, selectReviews, taskID)
}

func (t Tx) insertReview(r *fleet.Review) error {
	explain := func(err error) error { return fmt.Errorf("add review %s: %w", r.ID, err) }
	return t.putJSON(explain, insertReview, r.TaskID, r, r.ID, r.TaskID)
}

func scanReview(row Scanner) (*fleet.Review, error) {
	r := &fleet.Review{}
	return r, row.Scan(&r.ID, &r.TaskID, jsonColumn{r})
}
