package sqlite

import (
	"encoding/json"
	"math"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	newestFirst = ` ORDER BY created_at DESC, n DESC`
	taskNumbers = `SELECT n FROM tasks WHERE `
	tasksOf     = `SELECT ` + record.ReadColumns + `, NULL FROM tasks WHERE n ` + uidsIn + newestFirst

	// textRowsIn are the rows of textRows whose tasks can belong to a span of time. A newer task has a higher number, with
	// few exceptions.
	textRowsIn = `(SELECT rowid FROM tasks_text WHERE tasks_text MATCH ? AND rowid
		BETWEEN (SELECT min(n) FROM tasks WHERE created_at BETWEEN ? AND ?) AND (SELECT max(n) FROM tasks WHERE created_at BETWEEN ? AND ?))`
	endOfSpan  = `SELECT created_at FROM tasks WHERE created_at <= ?` + newestFirst + ` LIMIT 1 OFFSET ?`
	positionOf = `SELECT created_at, n FROM tasks WHERE id = ?`
)

// taskQuery selects tasks. SQLite does not know how often values occur, so the query decides which index is used: a
// plus sign before a column keeps SQLite from using an index for this condition.
type taskQuery struct {
	where string // each condition followed by AND
	args  []any
}

func (q *taskQuery) add(condition string, args ...any) {
	q.where += condition + ` AND `
	q.args = append(q.args, args...)
}

// taskConditions returns the conditions of the filter, except its text. led is true if another condition of the query
// already selects the rows, so that no index is needed here.
func taskConditions(f fleet.TaskFilter, led bool) *taskQuery {
	q := &taskQuery{}
	// lead returns the column in a form that lets SQLite use its index for the first condition, and not for later ones.
	lead := func(column string) string {
		if led {
			return `+` + column
		}
		led = true
		return column
	}
	if f.AgentUID != "" {
		q.add(lead(`agent_uid`)+` = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		q.add(lead(`agent_uid`)+` IN (SELECT uid FROM agents WHERE name_key = ?)`, record.Key(f.AgentName))
	}
	switch f.Status {
	case "":
	case fleet.TaskCompleted: // most tasks are completed, so the index would not help
		q.add(`+status = ?`, string(f.Status))
	default:
		column := lead(`status`)
		q.add(column+` = ? AND `+column+` <> 'completed'`, string(f.Status))
	}
	switch {
	case f.Owner == "":
	case len(f.Shared) == 0:
		q.add(lead(`owner`)+` = ?`, f.Owner)
	case led:
		q.add(`(+owner = ? OR +agent_uid `+uidsIn+`)`, f.Owner, list(f.Shared))
	default:
		led = true
		q.add(`n IN (SELECT n FROM tasks WHERE owner = ? UNION ALL SELECT n FROM tasks WHERE agent_uid `+uidsIn+`)`, f.Owner, list(f.Shared))
	}
	if f.Project != "" {
		q.add(lead(`project`)+` = ?`, f.Project)
	}
	if f.Source != "" {
		q.add(lead(`source`)+` = ?`, string(f.Source))
	}
	if f.Toolset != nil {
		q.add(lead(`toolset`)+` = ?`, string(*f.Toolset))
	}
	if len(f.Projects) > 0 {
		q.add(`+`+ofProjects, list(f.Projects), list(f.Projects))
	}
	if f.Place != "" {
		q.add(`+agent_uid IN (SELECT uid FROM agents WHERE place = ?)`, f.Place)
	}
	if !f.Since.IsZero() {
		q.add(`created_at >= ?`, micros(f.Since))
	}
	if !f.Until.IsZero() {
		q.add(`created_at < ?`, micros(f.Until))
	}
	return q
}

// position is the position of a task in lists, which are ordered from the newest to the oldest task.
type position struct{ createdAt, n int64 }

func scanPosition(row scanner) (p position, err error) { return p, row.Scan(&p.createdAt, &p.n) }

// beginning is the position before the first task of a list.
var beginning = position{math.MaxInt64, math.MaxInt64}

// numbers returns the numbers of the matching tasks after the position, newest first. It skips offset tasks and returns
// at most limit.
func (q *textQuery) numbers(behind position, limit, offset int) ([]int64, error) {
	if q.match != "" && !q.loaded && behind == beginning {
		ns, err := q.newest(offset + limit)
		if err != nil || len(ns) > 0 {
			return ns[min(offset, len(ns)):], err
		}
	}
	if err := q.load(); err != nil {
		return nil, err
	}
	c := q.conditions()
	if q.rare && behind == beginning { // there are few tasks, so find them all: count needs them too
		var err error
		if q.found == nil {
			q.found, err = all(q.readTx, scanInt64, taskNumbers+c.where+`true`+newestFirst, c.args...)
		}
		from := min(offset, len(q.found))
		return q.found[from:min(from+limit, len(q.found))], err
	}
	if behind != beginning {
		c.add(`(created_at, n) < (?, ?)`, behind.createdAt, behind.n)
	}
	if q.match == "" || q.rare {
		return all(q.readTx, scanInt64, taskNumbers+c.where+`true`+newestFirst+` LIMIT ? OFFSET ?`, append(c.args, limit, offset)...)
	}
	// Many tasks have the text. Search a growing span of time until enough tasks are found.
	for span := q.span; ; span *= 4 {
		since, err := first(q.readTx, scanInt64, endOfSpan, behind.createdAt, span)
		if err != nil {
			return nil, err
		}
		w := *c
		if since == 0 {
			w.add(`+n IN `+textRows, q.match)
		} else {
			w.add(`+n IN `+textRowsIn, q.match, since, behind.createdAt, since, behind.createdAt)
			w.add(`created_at >= ?`, since)
		}
		q.addText(&w)
		ns, err := all(q.readTx, scanInt64, taskNumbers+w.where+`true`+newestFirst+` LIMIT ? OFFSET ?`, append(w.args, limit, offset)...)
		if err != nil || len(ns) == limit || since == 0 {
			return ns, err
		}
	}
}

// count returns how many tasks match, at most most. For a text that is not rare, it examines only the newest tasks that
// the index finds. Then more is true, which means that further tasks may match.
func (q *textQuery) count(most int) (n int, more bool, err error) {
	if q.match != "" && !q.rare {
		if q.checked < countedRows {
			_, err = q.newestAmong(countedRows, most)
		}
		if !q.rare || err != nil {
			return min(q.matched, most), true, err
		}
	}
	if q.rare {
		ns, err := q.numbers(beginning, most, 0)
		return len(ns), false, err
	}
	c := q.conditions()
	n, err = first(q.readTx, scanInt, `SELECT count(*) FROM (SELECT 1 FROM tasks WHERE `+c.where+`true LIMIT ?)`, append(c.args, most)...)
	return n, false, err
}

func (t *readTx) FindTasks(f fleet.TaskFilter, w fleet.TaskWindow) (found fleet.FoundTasks, err error) {
	q, err := t.textQuery(f)
	if err != nil {
		return found, err
	}
	return record.FindTasks(w, func(limit int) ([]*fleet.Task, error) {
		behind, offset := beginning, max(0, w.Offset)
		if w.After != "" {
			after, err := first(t, scanPosition, positionOf, w.After)
			if err != nil {
				return nil, err
			}
			if after.n != 0 {
				behind, offset = after, 0
			}
		}
		ns, err := q.numbers(behind, limit, offset)
		if err != nil || len(ns) == 0 {
			return nil, err
		}
		list, err := json.Marshal(ns)
		if err != nil {
			return nil, t.failed(err)
		}
		return all(t, record.ScanTask, tasksOf, string(list))
	}, q.count)
}
