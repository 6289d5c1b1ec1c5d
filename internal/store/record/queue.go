package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const (
	putQueueEntry = `INSERT INTO task_queue (task_id, entry) VALUES (?, ?)
		ON CONFLICT (task_id) DO UPDATE SET entry = excluded.entry`
	selectEntries = `SELECT ` + TaskReadColumns + `, rest, entry FROM task_queue AS q JOIN tasks ON id = q.task_id
		LEFT JOIN task_descriptions AS d ON d.task_id = id WHERE `
	selectQueue = selectEntries + ActiveCondition
)

// Queue returns the matching tasks of the queue, see fleet.ReadTx.
func (t ReadTx) Queue(f fleet.QueueFilter) ([]*fleet.QueuedTask, error) {
	if f.All {
		return QueryAll(t.DB, scanQueued, selectQueue+` ORDER BY n`)
	}
	if len(f.TaskIDs) == 0 {
		return nil, nil
	}
	query := selectQueue + ` AND id `
	if f.IncludeEnded {
		query = selectEntries + `id `
	}
	return ReadLocked(t.DB, LockAgent, func(q *fleet.QueuedTask) string { return TaskLockName(&q.Task) }, func() ([]*fleet.QueuedTask, error) {
		return QueryAll(t.DB, scanQueued, query+t.DB.Dialect().InList+` ORDER BY n`, TextList(f.TaskIDs))
	})
}

func (t Tx) putQueueEntry(taskID string, e *fleet.QueueEntry) error {
	return t.putJSON(func(err error) error { return fmt.Errorf("queue task %s: %w", taskID, err) }, putQueueEntry, taskID, e, taskID)
}

// scanQueued returns the task of a row of selectEntries.
func scanQueued(row Scanner) (*fleet.QueuedTask, error) {
	q := &fleet.QueuedTask{}
	t, err := ScanTask(rowWithExtra{row, jsonColumn{&q.Entry}})
	if err != nil {
		return nil, err
	}
	q.Task = *t
	return q, nil
}

// rowWithExtra is a row with one more column, the last one, which Scan scans into extra.
type rowWithExtra struct {
	Scanner
	extra any
}

// Scan implements Scanner.
func (r rowWithExtra) Scan(dest ...any) error { return r.Scanner.Scan(append(dest, r.extra)...) }
