package postgres

import (
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	selectTasksWhere   = `SELECT ` + record.TaskReadColumns + `, NULL::text FROM tasks WHERE n IN (SELECT n FROM tasks WHERE `
	countTasksWhere    = `SELECT count(*) FROM (SELECT FROM tasks WHERE `
	selectPosition     = `SELECT created_at, n FROM tasks WHERE id = $1`
	newestFirst        = ` ORDER BY created_at DESC, n DESC`
	selectTaskIDsWhere = `SELECT id FROM tasks WHERE `
)

// lastChar is greater than every character of a stored id.
const lastChar = "\U0010FFFF"

func (t *baseTx) FindTasks(f fleet.TaskFilter, w fleet.TaskWindow) (fleet.FoundTasks, error) {
	if f.Text != "" {
		return t.findText(f, w)
	}
	return record.FindTasks(w, func(limit int) ([]*fleet.Task, error) {
		c, offset := taskConditions(f), max(0, w.Offset)
		after, err := t.findPosition(w.After)
		if err != nil {
			return nil, err
		}
		if after != nil {
			c.addAfter(*after)
			offset = 0
		}
		page := newestFirst + ` LIMIT ` + c.arg(limit) + ` OFFSET ` + c.arg(offset) + `)` + newestFirst
		return queryAll(t, record.ScanTask, selectTasksWhere+c.where+`true`+page, c.args...)
	}, func(limit int) (int, bool, error) {
		n, err := t.countTasks(f, limit)
		return n, false, err
	})
}

// countTasks returns how many tasks match the filter. It stops at limit.
func (t *baseTx) countTasks(f fleet.TaskFilter, limit int) (int, error) {
	c := taskConditions(f)
	return queryFirst(t, record.ScanInt, countTasksWhere+c.where+`true LIMIT `+c.arg(limit)+`) AS counted`, c.args...)
}

// position is the position of a task in lists, which are ordered from the newest to the oldest task.
type position struct {
	createdAt time.Time
	n         int64
}

// findPosition returns the position of the task; nil if id is "" or there is no such task.
func (t *baseTx) findPosition(id string) (*position, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // nil means the beginning of the list
	}
	return queryFirst(t, func(row scanner) (*position, error) {
		p := &position{}
		return p, row.Scan(&p.createdAt, &p.n)
	}, selectPosition, id)
}

// taskConditions returns the filter for tasks as SQL.
func taskConditions(f fleet.TaskFilter) *clause {
	c := &clause{}
	c.addTaskFilter(f)
	return c
}

func (t *baseTx) TaskIDs(prefix string, f fleet.TaskFilter, limit int) ([]string, error) {
	if prefix == "" || limit <= 0 {
		return nil, t.err
	}
	c := &clause{}
	c.addVisible(f.Owner, f.SharedUIDs)
	c.addProjects(f.Projects)
	c.add(`id >= ?`, prefix)
	c.add(`id < ?`, prefix+lastChar)
	return queryAll(t, record.ScanString, selectTaskIDsWhere+c.where+`true ORDER BY id LIMIT `+c.arg(limit), c.args...)
}
