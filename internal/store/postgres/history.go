package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	oldAttachments = `DELETE FROM task_attachments WHERE task_id IN (SELECT id FROM tasks WHERE id IN (SELECT task_id FROM task_attachments)
		AND status NOT IN ('pending', 'running') AND ended_at < $1 ORDER BY ended_at LIMIT $2) RETURNING name`
	oldRemains  = `DELETE FROM agent_remains WHERE agent_uid IN (SELECT agent_uid FROM agent_remains WHERE kept_at < $1 ORDER BY kept_at LIMIT $2) RETURNING agent_uid`
	findTasks   = `SELECT ` + record.ReadColumns + `, NULL::text FROM tasks WHERE n IN (SELECT n FROM tasks WHERE `
	countTasks  = `SELECT count(*) FROM (SELECT FROM tasks WHERE `
	positionOf  = `SELECT created_at, n FROM tasks WHERE id = $1`
	newestFirst = ` ORDER BY created_at DESC, n DESC`
	taskIDs     = `SELECT id FROM tasks WHERE `

	oldPayloads = `SELECT id FROM tasks WHERE payload_size > 0 AND NOT payload_removed AND ended_at < $1 ORDER BY ended_at LIMIT $2
		FOR UPDATE SKIP LOCKED`
	dropPayloads = `DELETE FROM payloads WHERE task_id = ANY($1)`
	markRemoved  = `UPDATE tasks SET payload_removed = true WHERE id = ANY($1)`
)

// dropTask are the statements that remove the rows that refer to a task, and then the task.
var dropTask = []string{
	`DELETE FROM payloads WHERE task_id = $1`, dropRest, `DELETE FROM task_changes WHERE task_id = $1`, `DELETE FROM task_checks WHERE task_id = $1`, `DELETE FROM task_queue WHERE task_id = $1`,
	`DELETE FROM task_reviews WHERE task_id = $1`, `DELETE FROM task_landings WHERE task_id = $1`,
	`DELETE FROM task_attachments WHERE task_id = $1`,
	`DELETE FROM messages WHERE task_id = $1`, `DELETE FROM questions WHERE task_id = $1`,
	`DELETE FROM inbox WHERE task_id = $1`, // before the log, because events move from the inbox to the log
	`DELETE FROM events WHERE task_id <> '' AND task_id = $1`, `DELETE FROM tasks WHERE id = $1`,
}

// lastChar is greater than every character of a stored id.
const lastChar = "\U0010FFFF"

func (t *readTx) FindTasks(f fleet.TaskFilter, w fleet.TaskWindow) (fleet.FoundTasks, error) {
	if f.Text != "" {
		return t.findText(f, w)
	}
	return record.FindTasks(w, func(limit int) ([]*fleet.Task, error) {
		c, offset := taskConditions(f), max(0, w.Offset)
		behind, err := t.position(w.After)
		if err != nil {
			return nil, err
		}
		if behind != nil {
			c.after(*behind)
			offset = 0
		}
		page := newestFirst + ` LIMIT ` + c.arg(limit) + ` OFFSET ` + c.arg(offset) + `)` + newestFirst
		return queryAll(t, record.ScanTask, findTasks+c.where+`true`+page, c.args...)
	}, func(limit int) (int, bool, error) {
		n, err := t.countTasks(f, limit)
		return n, false, err
	})
}

// countTasks returns how many tasks match the filter, at most limit.
func (t *readTx) countTasks(f fleet.TaskFilter, limit int) (int, error) {
	c := taskConditions(f)
	return queryFirst(t, scanInt, countTasks+c.where+`true LIMIT `+c.arg(limit)+`) AS counted`, c.args...)
}

// position is the position of a task in lists, which are ordered from the newest to the oldest task.
type position struct {
	createdAt time.Time
	n         int64
}

// position returns the position of the task; nil if id is "" or there is no such task.
func (t *readTx) position(id string) (*position, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // nil means the beginning of the list
	}
	return queryFirst(t, func(row scanner) (*position, error) {
		p := &position{}
		return p, row.Scan(&p.createdAt, &p.n)
	}, positionOf, id)
}

// after adds the condition that a task comes after the position in lists.
func (c *clause) after(p position) {
	c.where += `(created_at, n) < (` + c.arg(p.createdAt) + `, ` + c.arg(p.n) + `) AND `
}

// taskConditions returns the filter as SQL.
func taskConditions(f fleet.TaskFilter) *clause {
	c := &clause{}
	c.filter(f)
	return c
}

// filter adds the conditions of the filter.
func (c *clause) filter(f fleet.TaskFilter) {
	c.visible(f.Owner, f.Shared)
	c.ofProjects(f.Projects)
	if f.AgentUID != "" {
		c.add(`agent_uid = ?`, f.AgentUID)
	}
	if f.AgentName != "" {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE name_key = ?)`, record.Key(f.AgentName))
	}
	if f.Toolset != nil {
		c.add(`toolset = ?`, string(*f.Toolset))
	}
	if f.Place != "" {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE place = ?)`, f.Place)
	}
	if f.Role != "" {
		c.add(`agent_uid IN (SELECT uid FROM agents WHERE role = ?)`, f.Role)
	}
	if f.Project != "" {
		c.add(`project = ?`, f.Project)
	}
	if f.Status != "" {
		c.add(`status = ?`, string(f.Status))
	}
	if f.Ended {
		c.where += `status NOT IN ('pending', 'running') AND `
	}
	if f.Root != "" {
		root := c.arg(f.Root)
		c.where += `(root_id = ` + root + ` OR id = ` + root + `) AND `
	}
	if f.Parent != "" {
		c.add(`parent_id = ?`, f.Parent)
	}
	if f.Active || f.Status == fleet.TaskRunning || f.Status == fleet.TaskPending {
		c.where += record.ActiveCondition + ` AND ` // a plan for any status could not use the indexes of these tasks
	}
	if f.Source != "" {
		c.add(`source = ?`, string(f.Source))
	}
	if len(f.Landing) > 0 {
		c.where += record.LandingCondition(`id`, f.Landing, dialect.In, c.arg) + ` AND `
	}
	for _, condition := range record.SelectorConditions(f.Selector, dialect.In, c.arg) {
		c.where += condition + ` AND `
	}
	if !f.Since.IsZero() {
		c.add(`created_at >= ?`, f.Since)
	}
	if !f.Until.IsZero() {
		c.add(`created_at < ?`, f.Until)
	}
	if f.Text != "" {
		c.text(f.Text)
	}
}

func (t *readTx) TaskIDs(prefix string, f fleet.TaskFilter, limit int) ([]string, error) {
	if prefix == "" || limit <= 0 {
		return nil, t.err
	}
	c := &clause{}
	c.visible(f.Owner, f.Shared)
	c.ofProjects(f.Projects)
	c.add(`id >= ?`, prefix)
	c.add(`id < ?`, prefix+lastChar)
	return queryAll(t, scanString, taskIDs+c.where+`true ORDER BY id LIMIT `+c.arg(limit), c.args...)
}

// DeleteTask deletes the task. It deletes the rows that refer to the task first. It fails if the task does not exist or
// has not ended.
func (t *tx) deleteTask(id string) error {
	task, err := t.Task(id)
	switch {
	case err != nil:
		return err
	case task == nil:
		err = errors.New("it is not in the store")
	case task.Active():
		err = errors.New("it has not ended")
	}
	t.lock(record.LockTask, id)
	for _, query := range dropTask {
		if err == nil {
			err = t.exec(query, id)
		}
	}
	if err != nil {
		return t.fail(fmt.Errorf("delete task %s: %w", id, err))
	}
	return nil
}

// prunePayloads removes old payloads and attachments, and old remains of agents.
func (s *Store) prunePayloads(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = s.Update(ctx, func(ftx fleet.Tx) error {
		t := ftx.(*tx) //nolint:forcetypeassert // Update passes a *tx
		ids, err := queryAll(&t.readTx, scanString, oldPayloads, before, limit)
		if err != nil {
			return err
		}
		for _, query := range []string{dropPayloads, markRemoved} {
			if len(ids) == 0 {
				break
			}
			if err := t.exec(query, ids); err != nil {
				return t.fail(err)
			}
		}
		removed = len(ids)
		t.wrote = true
		for _, query := range []string{oldAttachments, oldRemains} {
			if err := t.each(func(row scanner) error {
				removed++
				return row.Scan(new(string))
			}, query, before, limit); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
