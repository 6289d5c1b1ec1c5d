package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"unicode/utf8"

	"fleet/internal/fleet"
)

// MaxRequestID is the longest request id, in characters.
const MaxRequestID = 128

// CheckRequestID refuses a request id that is too long.
func CheckRequestID(id string) error {
	if n := utf8.RuneCountInString(id); n > MaxRequestID {
		return fleet.InvalidField("request_id", "request_id has %d characters: use at most %d", n, MaxRequestID)
	}
	return nil
}

// Call is a call that changes something. A call with a request id is executed only once.
type Call struct {
	Method    string // of the API
	RequestID string // chosen by the caller; empty if the call is executed each time
	Body      any    // the request without its id: a different request with the same id is refused
	Caller    string // the caller that has chosen the id; empty means the principal
	Refusal   error  // why the call is refused if it was not executed before; nil if it is allowed
}

// CallResult names what a call made or changed.
type CallResult struct {
	AgentUID string
	ObjectID string // id of the task or the other object; several ids have spaces between them
}

// key returns the row that remembers the call, without its result.
func (c Call) key(p fleet.Principal) (fleet.Request, error) {
	if err := CheckRequestID(c.RequestID); err != nil {
		return fleet.Request{}, err
	}
	b, err := json.Marshal(c.Body)
	if err != nil {
		return fleet.Request{}, err
	}
	sum := sha256.Sum256(b)
	r := fleet.Request{Principal: p.Name, ID: c.RequestID, Method: c.Method, BodyHash: hex.EncodeToString(sum[:])}
	if c.Caller != "" {
		r.Principal = c.Caller
	}
	return r, nil
}

// earlierResult returns the result of the earlier call with the key, and whether there was such a call. The error is INVALID_ARGUMENT if
// the request id was used for a different call.
func earlierResult(tx fleet.ReadTx, key fleet.Request) (result CallResult, repeated bool, err error) {
	old, err := tx.Request(key.Principal, key.ID)
	if err != nil || old == nil {
		return CallResult{}, false, err
	}
	if old.Method != key.Method || old.BodyHash != key.BodyHash {
		return CallResult{}, false, fleet.InvalidField("request_id", "request_id %q was used before with another request: choose a new one", key.ID)
	}
	return CallResult{AgentUID: old.AgentUID, ObjectID: old.TaskID}, true, nil
}

// EarlierResult returns the result of the same call if it was executed before. Otherwise, and for a call without a request id, repeated is
// false. A caller of EarlierResult can skip slow checks of a repeated call, for example of a place. The error of a fast check can
// be passed to Once as Refusal instead. Only Once decides whether the call is executed.
func (s *Service) EarlierResult(ctx context.Context, c Call) (result CallResult, repeated bool, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil || c.RequestID == "" {
		return CallResult{}, false, err
	}
	key, err := c.key(p)
	if err != nil {
		return CallResult{}, false, err
	}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		result, repeated, err = earlierResult(tx, key)
		return err
	})
	return result, repeated, err
}

// Once executes fn in a transaction, passes the caller to it, and remembers the result under the call's request id. If the same call was
// executed before, Once does not execute fn: it returns the earlier result, and repeated is true. Otherwise, if c.Refusal is set, Once
// returns it instead of executing fn.
func (s *Service) Once(ctx context.Context, c Call, fn func(fleet.Tx, fleet.Principal) (CallResult, error)) (result CallResult, repeated bool, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return CallResult{}, false, err
	}
	var key fleet.Request
	if c.RequestID != "" {
		key, err = c.key(p)
	} else {
		err = c.Refusal
	}
	if err != nil {
		return CallResult{}, false, err
	}
	err = s.store.Update(ctx, func(tx fleet.Tx) (err error) {
		repeated = false
		if c.RequestID != "" {
			if result, repeated, err = earlierResult(tx, key); err != nil || repeated {
				return err
			}
		}
		if c.Refusal != nil {
			return c.Refusal
		}
		if result, err = fn(tx, p); err != nil || c.RequestID == "" {
			return err
		}
		r := key
		r.AgentUID, r.TaskID, r.CreatedAt = result.AgentUID, result.ObjectID, s.now()
		return tx.Insert(&r)
	})
	s.recordRefusal(ctx, err)
	return result, repeated, err
}

// startedTask returns the task that the earlier call with the result started. The error is TASK_NOT_FOUND if the task was
// deleted meanwhile.
func startedTask(tx fleet.ReadTx, result CallResult) (*fleet.Task, error) {
	t, err := tx.Task(result.ObjectID)
	if err == nil && t == nil {
		err = fleet.Errorf(fleet.ReasonTaskNotFound, "this request started task %q, which was deleted meanwhile: use another request_id to start a new one", result.ObjectID).
			With("task_id", result.ObjectID)
	}
	return t, err
}

// earlierTask returns the current state of the task of the earlier call. The error is TASK_NOT_FOUND if the task was deleted
// meanwhile, or if the caller may no longer see it.
func (s *Service) earlierTask(ctx context.Context, result CallResult) (*fleet.Task, error) {
	return viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) (*fleet.Task, error) {
		t, err := startedTask(tx, result)
		if err != nil {
			return nil, err
		}
		access, err := accessToTask(tx, p, t)
		if err == nil && access == fleet.AccessNone {
			err = errTaskNotFound(result.ObjectID)
		}
		return t, err
	})
}

// earlierAgent returns the agent that a call has changed, without its task. The agent may have been deleted meanwhile. The error
// is AGENT_NOT_FOUND if the caller may no longer see it.
func (s *Service) earlierAgent(ctx context.Context, result CallResult) (*fleet.AgentView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.storedAgent(ctx, result.AgentUID)
	if err != nil {
		return nil, err
	}
	if p.Access(&v.Agent) == fleet.AccessNone {
		return nil, fleet.AgentNotFound(v.Name)
	}
	return v, nil
}

// onceTask works like Once, for a call that returns a task.
func (s *Service) onceTask(ctx context.Context, c Call, fn func(fleet.Tx, fleet.Principal) (*fleet.Task, error)) (task *fleet.Task, err error) {
	result, repeated, err := s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		if task, err = fn(tx, p); err != nil {
			return CallResult{}, err
		}
		return CallResult{AgentUID: task.AgentUID, ObjectID: task.ID}, nil
	})
	if err == nil && repeated {
		task, err = s.earlierTask(ctx, result)
	}
	if err != nil {
		return nil, err
	}
	return task, nil
}

// changeTask works like onceTask, for a call that changes the task with the id, to which its caller must have AccessRun.
func (s *Service) changeTask(ctx context.Context, c Call, id string, change func(fleet.Tx, fleet.Principal, *fleet.Task) (*fleet.Task, error)) (*fleet.Task, error) {
	if id == "" {
		return nil, errNoTaskID()
	}
	return s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		t, err := s.task(tx, p, id, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		return change(tx, p, t)
	})
}
