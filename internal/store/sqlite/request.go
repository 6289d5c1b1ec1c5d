package sqlite

import (
	"database/sql"
	"fmt"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const requestColumns = `principal, id, method, body_hash, agent_uid, task_id, created_at`

var insertRequest = `INSERT INTO requests (` + requestColumns + `) VALUES (` + record.Marks(requestColumns) + `)`

func (t *readTx) Request(principal, id string) (*fleet.Request, error) {
	return first(t, scanRequest, `SELECT `+requestColumns+` FROM requests WHERE principal = ? AND id = ?`, principal, id)
}

func (t *tx) insertRequest(r *fleet.Request) error {
	_, err := t.exec(insertRequest, r.Principal, r.ID, r.Method, r.BodyHash, r.AgentUID, r.TaskID, micros(r.CreatedAt))
	if err != nil {
		return t.failed(fmt.Errorf("remember request %q of %q: %w", r.ID, r.Principal, err))
	}
	return nil
}

func scanRequest(row scanner) (*fleet.Request, error) {
	var (
		r  fleet.Request
		at sql.NullInt64
	)
	err := row.Scan(&r.Principal, &r.ID, &r.Method, &r.BodyHash, &r.AgentUID, &r.TaskID, &at)
	r.CreatedAt = timeOf(at)
	return &r, err
}
