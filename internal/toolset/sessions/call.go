package sessions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/service"
)

// call is a call that creates a session. It may carry a request id, so that it is done only once.
type call struct {
	principal        string
	method, id, hash string
}

func newCall(p fleet.Principal, method, id string, body any) (call, error) {
	if err := service.CheckRequestID(id); err != nil {
		return call{}, err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return call{}, err
	}
	sum := sha256.Sum256(b)
	return call{p.Name, method, id, hex.EncodeToString(sum[:])}, nil
}

// done returns the session that an earlier call with the same request id created; nil if there is none.
func (c call) done(tx fleet.ReadTx) (*fleet.Session, error) {
	if c.id == "" {
		return nil, nil
	}
	r, err := tx.Request(c.principal, c.id)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Method != c.method || r.BodyHash != c.hash {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "request_id", "request_id %q was used before with another request: choose a new one", c.id)
	}
	return tx.Session(r.TaskID)
}

// remember records, in the same transaction, which session the call created. A stored request has no field for a
// session, so the session id is kept in the field for the task.
func (c call) remember(tx fleet.Tx, x *fleet.Session, now time.Time) error {
	if c.id == "" {
		return nil
	}
	return tx.PutRequest(&fleet.Request{
		Principal: c.principal, ID: c.id, Method: c.method, BodyHash: c.hash, AgentUID: x.AgentUID, TaskID: x.ID, CreatedAt: now,
	})
}
