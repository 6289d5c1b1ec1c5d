package sqlite

import (
	"database/sql"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	messageColumns = `id, task_id, text, created_at, given_at, refused, refused_text`
	selectMessages = `SELECT ` + messageColumns + ` FROM messages `
	updateMessage  = `UPDATE messages SET given_at = ?, refused = ?, refused_text = ? WHERE id = ? RETURNING 1`
)

var insertMessage = `INSERT INTO messages (` + messageColumns + `) VALUES (` + record.Marks(messageColumns) + `)`

func (t *readTx) Message(id string) (*fleet.Message, error) {
	return first(t, scanMessage, selectMessages+`WHERE id = ?`, id)
}

func (t *readTx) Messages(taskID string) ([]*fleet.Message, error) {
	return all(t, scanMessage, selectMessages+`WHERE task_id = ? ORDER BY n`, taskID)
}

func (t *tx) insertMessage(m *fleet.Message) error {
	if err := t.grow(); err != nil {
		return err
	}
	_, err := t.exec(insertMessage, m.ID, m.TaskID, m.Text, micros(m.CreatedAt), maybeMicros(m.GivenAt), string(m.Refused), m.RefusedText)
	if err != nil {
		return t.failed(fmt.Errorf("add message %s: %w", m.ID, err))
	}
	return nil
}

func (t *tx) updateMessage(m *fleet.Message) error {
	if _, err := t.revise(updateMessage, maybeMicros(m.GivenAt), string(m.Refused), m.RefusedText, m.ID); err != nil {
		return t.failed(fmt.Errorf("write message %s: %w", m.ID, err))
	}
	return nil
}

func scanMessage(row scanner) (*fleet.Message, error) {
	var (
		m              fleet.Message
		created, given sql.NullInt64
	)
	err := row.Scan(&m.ID, &m.TaskID, &m.Text, &created, &given, (*string)(&m.Refused), &m.RefusedText)
	m.CreatedAt, m.GivenAt = timeOf(created), timeOf(given)
	return &m, err
}
