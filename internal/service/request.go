package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// MaxRequestID is the longest request id, in characters.
const MaxRequestID = 128

// CheckRequestID refuses a request id that is too long.
func CheckRequestID(id string) error {
	if n := utf8.RuneCountInString(id); n > MaxRequestID {
		return fleet.Invalid(fleet.ReasonInvalidArgument, "request_id", "request_id has %d characters, and at most %d are taken", n, MaxRequestID)
	}
	return nil
}

// call is a mutating call of a principal. It may carry an id so that it is done only once.
type call struct {
	principal fleet.Principal
	method    string
	id        string
	hash      string
}

// newCall describes a call; body is the request without its id.
func newCall(p fleet.Principal, method, id string, body any) (call, error) {
	if err := CheckRequestID(id); err != nil {
		return call{}, err
	}
	b, err := json.Marshal(body)
	if err != nil {
		return call{}, err
	}
	sum := sha256.Sum256(b)
	return call{principal: p, method: method, id: id, hash: hex.EncodeToString(sum[:])}, nil
}

// done returns the result of the same call made earlier; nil if it is new.
func (c call) done(tx fleet.ReadTx) (*fleet.Request, error) {
	if c.id == "" {
		return nil, nil
	}
	r, err := tx.Request(c.principal.Name, c.id)
	if err != nil || r == nil {
		return nil, err
	}
	if r.Method != c.method || r.BodyHash != c.hash {
		return nil, fleet.Invalid(fleet.ReasonInvalidArgument, "request_id", "request_id %q was used before with another request: choose a new one", c.id)
	}
	return r, nil
}

// doneBefore returns the result of the same call made earlier; nil if it is new.
func (s *Service) doneBefore(ctx context.Context, c call) (old *fleet.Request, err error) {
	if c.id == "" {
		return nil, nil
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		old, err = c.done(tx)
		return err
	})
	return old, err
}

// remember stores the result of the call, in the transaction that executes it.
func (c call) remember(tx fleet.Tx, agentUID, taskID string, now time.Time) error {
	if c.id == "" {
		return nil
	}
	return tx.PutRequest(&fleet.Request{
		Principal: c.principal.Name, ID: c.id, Method: c.method, BodyHash: c.hash,
		AgentUID: agentUID, TaskID: taskID, CreatedAt: now,
	})
}
