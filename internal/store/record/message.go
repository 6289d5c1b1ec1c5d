package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const (
	messageColumns = `id, task_id, text, created_at, given_at, refused, refused_text, from_task, turn`
	selectMessages = `SELECT ` + messageColumns + ` FROM messages `
	updateMessage  = `UPDATE messages SET given_at = ?, refused = ?, refused_text = ?, turn = ? WHERE id = ? RETURNING 1 AS revision`
)

var insertMessage = insertStatement("messages", messageColumns)

// Messages returns the matching messages, see fleet.ReadTx.
func (t ReadTx) Messages(f fleet.MessageFilter) ([]*fleet.Message, error) {
	if f.TaskID == "" {
		return ReadLocked(t.DB, LockTask, func(m *fleet.Message) string { return m.TaskID }, func() ([]*fleet.Message, error) {
			return QueryAll(t.DB, scanMessage, selectMessages+`WHERE id = ?`, f.ID)
		})
	}
	t.DB.Lock(LockTask, f.TaskID)
	return QueryAll(t.DB, scanMessage, selectMessages+`WHERE task_id = ? ORDER BY n`, f.TaskID)
}

func (t Tx) insertMessage(m *fleet.Message) error {
	if err := t.DB.CheckSpace(); err != nil {
		return err
	}
	t.DB.Lock(LockTask, m.TaskID)
	return t.DB.Exec(func(err error) error { return fmt.Errorf("add message %s: %w", m.ID, err) },
		insertMessage, m.ID, m.TaskID, m.Text, m.CreatedAt, NullTime(m.DeliveredAt), string(m.RefusalReason), m.RefusalText, m.FromTask, m.PromptTry)
}

func (t Tx) updateMessage(m *fleet.Message) error {
	t.DB.Lock(LockTask, m.TaskID)
	return t.DB.Revise(new(int64), func(err error) error { return fmt.Errorf("write message %s: %w", m.ID, err) },
		updateMessage, NullTime(m.DeliveredAt), string(m.RefusalReason), m.RefusalText, m.PromptTry, m.ID)
}

func scanMessage(row Scanner) (*fleet.Message, error) {
	var m fleet.Message
	return &m, row.Scan(&m.ID, &m.TaskID, &m.Text, (*TimeColumn)(&m.CreatedAt), (*TimeColumn)(&m.DeliveredAt), (*string)(&m.RefusalReason), &m.RefusalText, &m.FromTask, &m.PromptTry)
}
