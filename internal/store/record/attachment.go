package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const (
	putAttachment     = `INSERT INTO task_attachments (task_id, n, name, media_type, size, content) VALUES (?, ?, ?, ?, ?, ?)`
	selectAttachments = `SELECT name, media_type, size, CASE WHEN CAST(? AS boolean) THEN content END FROM task_attachments WHERE task_id = ? ORDER BY n`
)

// Attachments returns the attachments of the task, see fleet.ReadTx.
func (t ReadTx) Attachments(taskID string) ([]fleet.Attachment, error) {
	return t.readAttachments(taskID, true)
}

// AttachmentsWithoutContent returns the attachments of the task without their contents, see fleet.ReadTx.
func (t ReadTx) AttachmentsWithoutContent(taskID string) ([]fleet.Attachment, error) {
	return t.readAttachments(taskID, false)
}

func (t ReadTx) readAttachments(taskID string, withContent bool) ([]fleet.Attachment, error) {
	t.DB.Lock(LockTask, taskID)
	return QueryAll(t.DB, func(row Scanner) (a fleet.Attachment, err error) {
		return a, row.Scan(&a.Name, &a.MediaType, &a.Size, &a.Content)
	}, selectAttachments, withContent, taskID)
}

func (t Tx) putAttachments(taskID string, files fleet.Attachments) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	t.DB.Lock(LockTask, taskID)
	explain := func(err error) error { return fmt.Errorf("keep the attachments of task %s: %w", taskID, err) }
	for i, a := range files {
		if err := t.DB.Exec(explain, putAttachment, taskID, i, a.Name, a.MediaType, len(a.Content), a.Content); err != nil {
			return err
		}
	}
	return nil
}
