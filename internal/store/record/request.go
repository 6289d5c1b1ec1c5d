package record

import (
	"fmt"

	"fleet/internal/fleet"
)

const requestColumns = `principal, id, method, body_hash, agent_uid, task_id, created_at`

var insertRequest = insertStatement("requests", requestColumns)

// Request returns the principal's remembered request with the id, see fleet.ReadTx.
func (t ReadTx) Request(principal, id string) (*fleet.Request, error) {
	t.DB.Lock(lockRequest, joinKey(principal, id))
	return QueryFirst(t.DB, func(row Scanner) (*fleet.Request, error) {
		var r fleet.Request
		return &r, row.Scan(&r.Principal, &r.ID, &r.Method, &r.BodyHash, &r.AgentUID, &r.TaskID, (*TimeColumn)(&r.CreatedAt))
	}, `SELECT `+requestColumns+` FROM requests WHERE principal = ? AND id = ?`, principal, id)
}

func (t Tx) insertRequest(r *fleet.Request) error {
	t.DB.Lock(lockRequest, joinKey(r.Principal, r.ID))
	return t.DB.Exec(func(err error) error { return fmt.Errorf("remember request %q of %q: %w", r.ID, r.Principal, err) },
		insertRequest, r.Principal, r.ID, r.Method, r.BodyHash, r.AgentUID, r.TaskID, r.CreatedAt)
}
