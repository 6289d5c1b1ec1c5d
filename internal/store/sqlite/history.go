package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

// There are few texts of these queries, whatever the filter: an empty value matches everything. The owner, the text and the
// place have indexes or tables of their own, so they are in the query only if they are given.
const (
	ownedBy = `owner = ?7 AND `
	visible = `(owner = ?7 OR agent_uid IN (SELECT value FROM json_each(?11))) AND `
	ofAgent = `agent_uid = ?12 AND `
	reached = `agent_uid IN (SELECT uid FROM agents WHERE project <> ''
		AND (project IN (SELECT value FROM json_each(?13)) OR place || '/' || project IN (SELECT value FROM json_each(?13)))) AND `
	inPlace  = `agent_uid IN (SELECT uid FROM agents WHERE place = ?9) AND `
	hasText  = `n IN (SELECT rowid FROM tasks_text WHERE tasks_text MATCH ?8) AND `
	hasChars = `(instr(lower(description), lower(?8)) > 0 OR instr(lower(summary), lower(?8)) > 0) AND `
	matching = `created_at >= ?1 AND (?2 = '' OR status = ?2) AND (?3 = '' OR source = ?3) AND (?4 = '' OR toolset = ?5)
		AND (?6 = '' OR project = ?6) AND (?10 = '' OR name_key = ?10)
		AND (?14 = 0 OR created_at < ?14)`
	newestFirst = ` ORDER BY created_at DESC, n DESC`

	countTasks = `SELECT count(*) FROM tasks WHERE `
	findTasks  = `SELECT id, ` + record.TaskColumns + `, payload_removed, revision, NULL FROM tasks WHERE n IN (SELECT n FROM tasks WHERE `
	onePage    = newestFirst + ` LIMIT ?15 OFFSET ?16)` + newestFirst

	taskIDs       = `SELECT id FROM tasks WHERE id >= ?1 AND id < ?2 AND (?3 = '' OR owner = ?3 OR agent_uid IN (SELECT value FROM json_each(?4))) ORDER BY id LIMIT ?5`
	newestAgent   = record.SelectAgents + `WHERE name_key = ?1 AND toolset = '' AND (?2 = '' OR owner = ?2) ORDER BY created_at DESC, n DESC LIMIT 1`
	oldPayloads   = `SELECT id FROM tasks WHERE payload_size > 0 AND payload_removed = 0 AND ended_at < ? ORDER BY ended_at LIMIT ?`
	dropPayload   = `DELETE FROM payloads WHERE task_id = ?`
	markRemoved   = `UPDATE tasks SET payload_removed = 1 WHERE id = ?`
	dropEvents    = `DELETE FROM events WHERE task_id <> '' AND task_id = ?`
	dropChanges   = `DELETE FROM task_changes WHERE task_id = ?`
	dropChecks    = `DELETE FROM task_checks WHERE task_id = ?`
	dropMessages  = `DELETE FROM messages WHERE task_id = ?`
	dropQuestions = `DELETE FROM questions WHERE task_id = ?`
	dropTask      = `DELETE FROM tasks WHERE id = ?`
)

// minIndexed is the shortest text that the full-text index can find, in characters.
const minIndexed = 3

func (t *readTx) FindTasks(f fleet.TaskFilter, limit, offset int) ([]*fleet.Task, int, error) {
	where, args := taskConditions(f)
	total, err := first(t, scanInt, countTasks+where, args...)
	if err != nil || limit <= 0 || offset >= total {
		return nil, total, err
	}
	tasks, err := all(t, record.ScanTask, findTasks+where+onePage, append(args, limit, max(0, offset))...)
	return tasks, total, err
}

// taskConditions returns the filter as SQL, and its values.
func taskConditions(f fleet.TaskFilter) (where string, args []any) {
	text := f.Text
	switch {
	case text == "":
	case utf8.RuneCountInString(text) < minIndexed:
		where = hasChars
	default:
		where = hasText
		text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	switch {
	case f.Owner == "":
	case len(f.Shared) == 0:
		where += ownedBy
	default:
		where += visible
	}
	if f.AgentUID != "" {
		where += ofAgent
	}
	if len(f.Projects) > 0 {
		where += reached
	}
	if f.Place != "" {
		where += inPlace
	}
	var since, until int64
	if !f.Since.IsZero() {
		since = micros(f.Since)
	}
	if !f.Until.IsZero() {
		until = micros(f.Until)
	}
	oneToolset, toolset := "", ""
	if f.Toolset != nil {
		oneToolset, toolset = "one", string(*f.Toolset)
	}
	return where + matching, []any{
		since, string(f.Status), string(f.Source), oneToolset, toolset, f.Project, f.Owner, text, f.Place, record.Key(f.AgentName), list(f.Shared), f.AgentUID, list(f.Projects), until,
	}
}

func (t *readTx) TaskIDs(prefix, owner string, shared []string, limit int) ([]string, error) {
	if prefix == "" || limit <= 0 {
		return nil, t.err
	}
	return all(t, scanString, taskIDs, prefix, prefix+"\U0010FFFF", owner, list(shared), limit)
}

func (t *readTx) NewestAgent(name, owner string) (*fleet.Agent, error) {
	return first(t, record.ScanAgent, newestAgent, record.Key(name), owner)
}

// DeleteTask removes what refers to the task before the task.
func (t *tx) DeleteTask(id string) error {
	task, err := t.Task(id)
	switch {
	case err != nil:
		return err
	case task == nil:
		err = errors.New("it is not in the store")
	case task.Active():
		err = errors.New("it has not ended")
	}
	for _, query := range []string{dropPayload, dropRest, dropChanges, dropChecks, dropMessages, dropQuestions, dropEvents, dropTask} {
		if err == nil {
			_, err = t.exec(query, id)
		}
	}
	if err != nil {
		return t.failed(fmt.Errorf("delete task %s: %w", id, err))
	}
	return nil
}

// PrunePayloads removes old payloads, see fleet.Store.
func (s *Store) PrunePayloads(ctx context.Context, before time.Time, limit int) (removed int, err error) {
	err = s.Update(ctx, func(ftx fleet.Tx) error {
		t := ftx.(*tx) //nolint:forcetypeassert // our own
		ids, err := all(&t.readTx, scanString, oldPayloads, micros(before), limit)
		if err != nil {
			return err
		}
		for _, id := range ids {
			for _, query := range []string{dropPayload, markRemoved} {
				if _, err := t.exec(query, id); err != nil {
					return t.failed(err)
				}
			}
		}
		removed = len(ids)
		return t.each(func(row scanner) error {
			removed++
			return row.Scan(new(string))
		}, oldRemains, micros(before), limit)
	})
	return removed, err
}
