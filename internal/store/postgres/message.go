package postgres

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const (
	messageColumns = `id, task_id, text, created_at, given_at, refused, refused_text`
	selectMessages = `SELECT ` + messageColumns + ` FROM messages `
	updateMessage  = `UPDATE messages SET given_at = $1, refused = $2, refused_text = $3 WHERE id = $4 RETURNING 1`
)

var insertMessage = numbered(`INSERT INTO messages (` + messageColumns + `) VALUES (` + record.Marks(messageColumns) + `)`)

func (t *readTx) Message(id string) (*fleet.Message, error) {
	got, err := settled(t, lockTask, func(m *fleet.Message) []string { return []string{m.TaskID} }, func() ([]*fleet.Message, error) {
		return all(t, scanMessage, selectMessages+`WHERE id = $1`, id)
	})
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

func (t *readTx) Messages(taskID string) ([]*fleet.Message, error) {
	t.lock(lockTask, taskID)
	return all(t, scanMessage, selectMessages+`WHERE task_id = $1 ORDER BY n`, taskID)
}

func (t *tx) insertMessage(m *fleet.Message) error {
	if err := t.grow(); err != nil {
		return err
	}
	t.lock(lockTask, m.TaskID)
	err := t.exec(insertMessage, m.ID, m.TaskID, m.Text, m.CreatedAt, maybe(m.GivenAt), string(m.Refused), m.RefusedText)
	if err != nil {
		return t.failed(fmt.Errorf("add message %s: %w", m.ID, err))
	}
	return nil
}

func (t *tx) updateMessage(m *fleet.Message) error {
	t.lock(lockTask, m.TaskID)
	if _, err := t.revise(updateMessage, maybe(m.GivenAt), string(m.Refused), m.RefusedText, m.ID); err != nil {
		return t.failed(fmt.Errorf("write message %s: %w", m.ID, err))
	}
	return nil
}

func scanMessage(row scanner) (*fleet.Message, error) {
	var (
		m              fleet.Message
		created, given *time.Time
	)
	err := row.Scan(&m.ID, &m.TaskID, &m.Text, &created, &given, (*string)(&m.Refused), &m.RefusedText)
	m.CreatedAt, m.GivenAt = timeOf(created), timeOf(given)
	return &m, err
}
