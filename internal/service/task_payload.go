package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"

	"fleet/internal/fleet"
)

// Payload returns the task's payload; nil if it has none.
func (s *Service) Payload(ctx context.Context, taskID string) ([]byte, error) {
	return viewTask(ctx, s, taskID, func(tx fleet.ReadTx, t *fleet.Task) ([]byte, error) { return tx.Payload(t.ID) })
}

// PackedPayload returns the payload of the agent's newest task, compressed as a single gzip member, and its uncompressed size in
// bytes. The error is PAYLOAD_NOT_FOUND if the caller may not change the agent, or its newest task has no payload.
func (s *Service) PackedPayload(ctx context.Context, uid string) (packed []byte, size int, err error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, 0, err
	}
	var unpacked []byte
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		errNotFound := fleet.Errorf(fleet.ReasonPayloadNotFound, "agent %q has no payload, or there is no such agent", fleet.Shorten(uid, 60)).With("agent_id", fleet.Shorten(uid, 60))
		if _, err := changeableAgent(tx, p, uid); err != nil {
			if fleet.ReasonOf(err) == fleet.ReasonAgentNotFound {
				return errNotFound
			}
			return err
		}
		last, err := tx.LastTasks([]string{uid})
		switch {
		case err != nil:
			return err
		case len(last) == 0 || last[0].PayloadSize == 0 || last[0].PayloadRemoved:
			return errNotFound
		}
		size = last[0].PayloadSize
		if last[0].Active() { // the stored payload may consist of several members
			unpacked, err = tx.Payload(last[0].ID)
			return err
		}
		packed, err = tx.PackedPayload(last[0].ID)
		return err
	})
	if err == nil && packed == nil {
		packed, err = pack(unpacked)
	}
	return packed, size, err
}

// pack returns b as one gzip member.
func pack(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}

// AppendPayload appends the piece to the payload of the agent's running task, once per request id, and returns the payload's new
// size in bytes. The error is NO_RUNNING_TASK if the agent has no running task, and LIMIT_REACHED if the payload would have more than
// limit bytes or exceed a limit of stored bytes.
func (s *Service) AppendPayload(ctx context.Context, uid string, piece []byte, limit int, requestID string) (size int, err error) {
	c := Call{Method: "AppendPayload", RequestID: requestID}
	if requestID != "" {
		c.Body = []string{uid, fleet.HashSecret(string(piece))}
	}
	task, err := s.onceTask(ctx, c, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		v, err := changeableAgent(tx, p, uid)
		if err != nil {
			return nil, err
		}
		a, t := &v.Agent, v.Task
		if t == nil {
			return nil, fleet.Errorf(fleet.ReasonNoRunningTask, "agent %q has no running task, so nothing can be added to its payload", uid).With("agent_name", uid) // callers of AppendPayload know the agent only by its uid
		}
		if size := t.PayloadSize + len(piece); size > limit {
			return nil, errPayloadTooLarge(size, limit)
		}
		if err := admit(ctx, s.Limits(), tx, p, t.Owner, increase{bytes: len(piece), project: a.Project}); err != nil {
			return nil, err
		}
		if err := tx.Put(t.ID, fleet.PayloadPiece(piece)); err != nil {
			return nil, err
		}
		t.PayloadSize += len(piece)
		if err := tx.Update(t); err != nil {
			return nil, err
		}
		return t, tx.Append(t.Event(fleet.EventTaskStep, s.now(), fmt.Sprintf("%d bytes were added to the payload", len(piece))))
	})
	if err != nil {
		return 0, err
	}
	return task.PayloadSize, nil
}

func errPayloadTooLarge(size, limit int) *fleet.Error {
	return fleet.Errorf(fleet.ReasonLimitReached, "the payload would have %d bytes and the limit is %d: put the rest into a file", size, limit).
		AtLimit("payload bytes", int64(size), int64(limit)).With("field", "payload")
}

// payloadExpired reports whether the ended task has a payload whose retention period is over. The store may still have the payload.
func (s *Service) payloadExpired(t *fleet.Task) bool {
	return t.PayloadSize > 0 && s.cfg.PayloadRetention >= 0 && t.EndedAt.Add(s.cfg.PayloadRetention).Before(s.now())
}
