package sqlite

import (
	"encoding/json"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	newestFirst         = ` ORDER BY created_at DESC, n DESC`
	lastInsertedFirst   = ` ORDER BY n DESC`
	selectTasksByNumber = `SELECT ` + record.TaskReadColumns + `, NULL FROM tasks WHERE n ` + inList
	// fromTextIndex joins the tasks to the rows that the full-text index finds, in the order of their numbers.
	fromTextIndex = `tasks_text CROSS JOIN tasks ON tasks.n = tasks_text.rowid`

	selectPosition = `SELECT created_at, n FROM tasks WHERE id = ?`
)

// taskQuery selects tasks. SQLite does not know how often values occur, so the query decides which index is used: a
// plus sign before a column keeps SQLite from using an index for this condition.
type taskQuery struct {
	where string // each condition followed by AND
	args  []any
}

// arg adds an argument of the next condition and returns its placeholder.
func (q *taskQuery) arg(v any) string {
	q.args = append(q.args, encode([]any{v})...)
	return `?`
}

func (q *taskQuery) add(condition string, args ...any) {
	q.where += condition + ` AND `
	q.args = append(q.args, args...)
}

// taskConditions returns the conditions of the filter, except its text. indexed says that another condition of the query
// already uses an index, so that these conditions must not use one.
func taskConditions(f fleet.TaskFilter, indexed bool) *taskQuery {
	q := &taskQuery{}
	if f.Selector.RequiresLabel() {
		indexed = true // the index of tasks with labels
	}
	// lead returns the column for a condition. SQLite can use the index of the first such column, and not those of later ones.
	lead := func(column string) string {
		if indexed {
			return `+` + column
		}
		indexed = true
		return column
	}
	if f.ParentID != "" {
		q.add(lead(`parent_id`)+` = ?`, f.ParentID)
	}
	if f.RootID != "" {
		if column := lead(`root_id`); column == `root_id` {
			q.add(`n IN (SELECT n FROM tasks WHERE root_id = ? UNION ALL SELECT n FROM tasks WHERE id = ?)`, f.RootID, f.RootID)
		} else {
			q.add(`(+root_id = ? OR id = ?)`, f.RootID, f.RootID)
		}
	}
	if f.AgentUID != "" {
		q.add(lead(`agent_uid`)+` = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		q.add(lead(`agent_uid`)+` IN (SELECT uid FROM agents WHERE name_key = ?)`, record.NameKey(f.AgentName))
	}
	switch f.Status {
	case "":
	case fleet.TaskCompleted: // most tasks are completed, so the index would not help
		q.add(`+status = ?`, string(f.Status))
	default:
		column := lead(`status`)
		q.add(column+` = ? AND `+column+` <> 'completed'`, string(f.Status))
	}
	if f.Active {
		q.add(`+status IN ('pending', 'running')`)
	}
	if f.Ended {
		q.add(`+status NOT IN ('pending', 'running')`)
	}
	switch {
	case f.Owner == "":
	case len(f.SharedUIDs) == 0:
		q.add(lead(`owner`)+` = ?`, f.Owner)
	case indexed:
		q.add(`(+owner = ? OR +agent_uid `+inList+`)`, f.Owner, jsonList(f.SharedUIDs))
	default:
		indexed = true
		q.add(`n IN (SELECT n FROM tasks WHERE owner = ? UNION ALL SELECT n FROM tasks WHERE agent_uid `+inList+`)`, f.Owner, jsonList(f.SharedUIDs))
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
		q.add(`+`+inProjects, jsonList(f.Projects), jsonList(f.Projects))
	}
	if f.Place != "" {
		q.add(`+agent_uid IN (SELECT uid FROM agents WHERE place = ?)`, f.Place)
	}
	if f.Role != "" {
		q.add(`+agent_uid IN (SELECT uid FROM agents WHERE role = ?)`, f.Role)
	}
	if len(f.LandingStates) > 0 {
		q.add(record.LandingCondition(lead(`id`), f.LandingStates, inList, q.arg))
	}
	for _, c := range record.SelectorConditions(f.Selector, inList, q.arg) {
		q.add(c)
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

// FindTasks finds tasks, see fleet.ReadTx. It returns tasks that the full-text index finds in the order of their insertion,
// the last one first, because the index has no other order. This differs from the order of their times only if a clock was wrong.
func (t *baseTx) FindTasks(f fleet.TaskFilter, w fleet.TaskWindow) (found fleet.FoundTasks, err error) {
	indexed := isIndexed(f.Text)
	q, from, order := taskConditions(f, indexed), `tasks`, newestFirst
	if indexed {
		from, order = fromTextIndex, lastInsertedFirst
		err = t.addText(q, f.Text)
	} else if f.Text != "" {
		q.add(containsText, f.Text, f.Text)
	}
	if err != nil {
		return found, err
	}
	return record.FindTasks(w, func(limit int) ([]*fleet.Task, error) {
		page, offset := *q, max(0, w.Offset)
		if w.After != "" {
			after, err := record.QueryFirst(t, scanPosition, selectPosition, w.After)
			if err != nil {
				return nil, err
			}
			if after.n != 0 {
				offset = 0
				page.addAfter(after, indexed)
			}
		}
		ns, err := record.QueryAll(t, record.ScanInt64, page.numbersQuery(from, order), append(slices.Clip(page.args), limit, offset)...)
		if err != nil || len(ns) == 0 {
			return nil, err
		}
		list, err := json.Marshal(ns)
		if err != nil {
			return nil, t.fail(err)
		}
		return record.QueryAll(t, record.ScanTask, selectTasksByNumber+order, string(list))
	}, func(limit int) (n int, more bool, err error) {
		n, err = record.QueryFirst(t, record.ScanInt, `SELECT count(*) FROM (SELECT 1 FROM `+from+` WHERE `+q.where+`true LIMIT ?)`, append(slices.Clip(q.args), limit)...)
		return n, false, err
	})
}

// addAfter adds the condition that a task comes after the position.
func (q *taskQuery) addAfter(p position, indexed bool) {
	if indexed {
		q.add(`tasks_text.rowid < ?`, p.n)
	} else {
		q.add(`(created_at, n) < (?, ?)`, p.createdAt, p.n)
	}
}

// numbersQuery returns the query for the numbers of the tasks. After q.args, its arguments are a limit and an offset.
func (q *taskQuery) numbersQuery(from, order string) string {
	if from == fromTextIndex {
		order = ` ORDER BY tasks_text.rowid DESC` // SQLite does not know that this is the order of n
	}
	return `SELECT n FROM ` + from + ` WHERE ` + q.where + `true` + order + ` LIMIT ? OFFSET ?`
}

const (
	selectTaskIDs = `SELECT id FROM tasks WHERE id >= ?1 AND id < ?2 AND (?3 = '' OR owner = ?3 OR agent_uid IN (SELECT value FROM json_each(?4)))
		AND (?6 = 'null' OR EXISTS (SELECT 1 FROM agents WHERE uid = tasks.agent_uid AND project <> ''
			AND (project IN (SELECT value FROM json_each(?6)) OR place || '/' || project IN (SELECT value FROM json_each(?6)))))
		ORDER BY id LIMIT ?5`
)

func (t *baseTx) TaskIDs(prefix string, f fleet.TaskFilter, limit int) ([]string, error) {
	if prefix == "" || limit <= 0 {
		return nil, t.err
	}
	return record.QueryAll(t, record.ScanString, selectTaskIDs, prefix, prefix+"\U0010FFFF", f.Owner, jsonList(f.SharedUIDs), limit, jsonList(f.Projects))
}
