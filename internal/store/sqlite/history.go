package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"fleet/internal/fleet"
)

const (
	dropAttachments = `DELETE FROM task_attachments WHERE task_id = ?`
	oldAttachments  = `DELETE FROM task_attachments WHERE task_id IN (SELECT id FROM tasks WHERE id IN (SELECT task_id FROM task_attachments)
		AND status NOT IN ('pending', 'running') AND ended_at < ? ORDER BY ended_at LIMIT ?) RETURNING name`
	oldRemains = `DELETE FROM agent_remains WHERE agent_uid IN (SELECT agent_uid FROM agent_remains WHERE kept_at < ? ORDER BY kept_at LIMIT ?) RETURNING agent_uid`
	taskIDs    = `SELECT id FROM tasks WHERE id >= ?1 AND id < ?2 AND (?3 = '' OR owner = ?3 OR agent_uid IN (SELECT value FROM json_each(?4)))
		AND (?6 = 'null' OR EXISTS (SELECT 1 FROM agents WHERE uid = tasks.agent_uid AND project <> ''
			AND (project IN (SELECT value FROM json_each(?6)) OR place || '/' || project IN (SELECT value FROM json_each(?6)))))
		ORDER BY id LIMIT ?5`
	oldPayloads   = `SELECT id FROM tasks WHERE payload_size > 0 AND payload_removed = 0 AND ended_at < ? ORDER BY ended_at LIMIT ?`
	dropPayload   = `DELETE FROM payloads WHERE task_id = ?`
	markRemoved   = `UPDATE tasks SET payload_removed = 1 WHERE id = ?`
	dropEvents    = `DELETE FROM events WHERE task_id <> '' AND task_id = ?`
	dropChanges   = `DELETE FROM task_changes WHERE task_id = ?`
	dropChecks    = `DELETE FROM task_checks WHERE task_id = ?`
	dropEntry     = `DELETE FROM task_queue WHERE task_id = ?`
	dropReviews   = `DELETE FROM task_reviews WHERE task_id = ?`
	dropLanding   = `DELETE FROM task_landings WHERE task_id = ?`
	dropMessages  = `DELETE FROM messages WHERE task_id = ?`
	dropQuestions = `DELETE FROM questions WHERE task_id = ?`
	dropTask      = `DELETE FROM tasks WHERE id = ?`
)

func (t *readTx) TaskIDs(prefix string, f fleet.TaskFilter, limit int) ([]string, error) {
	if prefix == "" || limit <= 0 {
		return nil, t.err
	}
	return queryAll(t, scanString, taskIDs, prefix, prefix+"\U0010FFFF", f.Owner, jsonList(f.Shared), limit, jsonList(f.Projects))
}

// deleteTask deletes the task. It deletes the rows that refer to the task first. It fails if the task does not exist or
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
	for _, query := range []string{dropPayload, dropRest, dropChanges, dropChecks, dropEntry, dropReviews, dropLanding, dropAttachments, dropMessages, dropQuestions, dropEvents, dropTask} {
		if err == nil {
			_, err = t.exec(query, id)
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
		ids, err := queryAll(&t.readTx, scanString, oldPayloads, micros(before), limit)
		if err != nil {
			return err
		}
		for _, id := range ids {
			for _, query := range []string{dropPayload, markRemoved} {
				if _, err := t.exec(query, id); err != nil {
					return t.fail(err)
				}
			}
		}
		removed = len(ids)
		for _, query := range []string{oldAttachments, oldRemains} {
			if err := t.each(func(row scanner) error {
				removed++
				return row.Scan(new(string))
			}, query, micros(before), limit); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, err
}
