package sqlite

import (
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	putAttachment   = `INSERT INTO task_attachments (task_id, n, name, media_type, size, content) VALUES (?, ?, ?, ?, ?, ?)`
	getAttachments  = `SELECT name, media_type, size, CASE WHEN ? THEN content END FROM task_attachments WHERE task_id = ? ORDER BY n`
	dropAttachments = `DELETE FROM task_attachments WHERE task_id = ?`
	oldAttachments  = `DELETE FROM task_attachments WHERE task_id IN (SELECT id FROM tasks WHERE id IN (SELECT task_id FROM task_attachments)
		AND status NOT IN ('pending', 'running') AND ended_at < ? ORDER BY ended_at LIMIT ?) RETURNING name`
)

func (t *readTx) Attachments(taskID string, content bool) ([]fleet.Attachment, error) {
	return all(t, record.ScanAttachment, getAttachments, content, taskID)
}

func (t *tx) putAttachments(taskID string, all fleet.Attachments) error {
	if err := t.grow(); err != nil {
		return err
	}
	for i, a := range all {
		if _, err := t.exec(putAttachment, taskID, i, a.Name, a.MediaType, len(a.Content), a.Content); err != nil {
			return t.failed(fmt.Errorf("keep the attachments of task %s: %w", taskID, err))
		}
	}
	return nil
}
