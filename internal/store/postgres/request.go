package postgres

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/store/record"
)

const requestColumns = `principal, id, method, body_hash, agent_uid, task_id, created_at`

var insertRequest = numbered(`INSERT INTO requests (` + requestColumns + `) VALUES (` + record.Marks(requestColumns) + `)`)

func (t *readTx) Request(principal, id string) (*fleet.Request, error) {
	t.lock(lockRequest, joined(principal, id))
	return first(t, scanRequest, `SELECT `+requestColumns+` FROM requests WHERE principal = $1 AND id = $2`, principal, id)
}

func (t *tx) insertRequest(r *fleet.Request) error {
	t.lock(lockRequest, joined(r.Principal, r.ID))
	return t.execLater(func(err error) error { return fmt.Errorf("remember request %q of %q: %w", r.ID, r.Principal, err) },
		insertRequest, r.Principal, r.ID, r.Method, r.BodyHash, r.AgentUID, r.TaskID, r.CreatedAt)
}

func scanRequest(row scanner) (*fleet.Request, error) {
	var (
		r  fleet.Request
		at *time.Time
	)
	err := row.Scan(&r.Principal, &r.ID, &r.Method, &r.BodyHash, &r.AgentUID, &r.TaskID, &at)
	r.CreatedAt = timeOf(at)
	return &r, err
}
