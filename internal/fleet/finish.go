package fleet

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// FollowTask passes the task's events after the given seq to sink, which may be nil, until the task has ended, and
// returns the ended task. It waits until then, or until ctx is done.
func (s *Service) FollowTask(ctx context.Context, id string, after int64, sink func(Event) error) (*Task, error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	signal, cancel := s.store.Subscribe()
	defer cancel()
	for {
		var task *Task
		var events []Event
		err := s.store.View(ctx, func(tx ReadTx) (err error) {
			if task, err = s.task(tx, p, id); err != nil || sink == nil {
				return err
			}
			events, err = tx.Events(EventFilter{TaskID: id}, after, watchBatch)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			if err := sink(e); err != nil {
				return nil, err
			}
			after = e.Seq
		}
		switch {
		case len(events) == watchBatch:
			continue
		case !task.Active():
			return task, nil
		}
		if err := s.await(ctx, signal, task, after, sink != nil); err != nil {
			return nil, err
		}
	}
}

// await waits for news about the task: its end, or, with output set, any event.
func (s *Service) await(ctx context.Context, signal <-chan struct{}, t *Task, after int64, output bool) error {
	for {
		select {
		case <-signal:
		case <-ctx.Done():
			return ctx.Err()
		}
		ended, err := s.anyChanged(ctx, []*Task{t}, false)
		if err != nil || ended {
			return err
		}
		if !output {
			continue
		}
		var events []Event
		if err := s.store.View(ctx, func(tx ReadTx) (err error) {
			events, err = tx.Events(EventFilter{TaskID: t.ID}, after, 1)
			return err
		}); err != nil || len(events) > 0 {
			return err
		}
	}
}

// Payload returns the task's payload; nil if it has none.
func (s *Service) Payload(ctx context.Context, taskID string) (payload []byte, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.View(ctx, func(tx ReadTx) error {
		t, err := s.task(tx, p, taskID)
		if err != nil {
			return err
		}
		payload, err = tx.Payload(t.ID)
		return err
	})
	return payload, err
}

// PackedPayload returns the payload of the agent's newest task, compressed with gzip as a single member, and its
// uncompressed size. PAYLOAD_NOT_FOUND if there is none that p may see.
func (s *Service) PackedPayload(ctx context.Context, uid string) (packed []byte, size int, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, 0, err
	}
	var pieces []byte
	err = s.store.View(ctx, func(tx ReadTx) error {
		none := Errorf(ReasonPayloadNotFound, "agent %q has no payload, or there is no such agent", shorten(uid, 60)).With("agent_id", shorten(uid, 60))
		if _, err := own(tx, p, uid); err != nil {
			if ReasonOf(err) == ReasonAgentNotFound {
				return none
			}
			return err
		}
		last, err := tx.LastTasks([]string{uid})
		switch {
		case err != nil:
			return err
		case len(last) == 0 || last[0].PayloadSize == 0 || last[0].PayloadRemoved:
			return none
		}
		size = last[0].PayloadSize
		if last[0].Active() { // it may consist of several members
			pieces, err = tx.Payload(last[0].ID)
			return err
		}
		packed, err = tx.PackedPayload(last[0].ID)
		return err
	})
	if err == nil && packed == nil {
		packed, err = pack(pieces)
	}
	return packed, size, err
}

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

// AppendPayload appends to the payload of the agent's running task, once per request id, and returns the payload's new
// size. LIMIT_REACHED if it would exceed limit.
func (s *Service) AppendPayload(ctx context.Context, uid string, piece []byte, limit int, requestID string) (size int, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return 0, err
	}
	c, err := newCall(p, "AppendPayload", requestID, []string{uid, hashToken(string(piece))})
	if err != nil {
		return 0, err
	}
	err = s.store.Update(ctx, func(tx Tx) error {
		if _, err := own(tx, p, uid); err != nil {
			return err
		}
		t, err := tx.ActiveTask(uid)
		if err != nil {
			return err
		}
		if old, err := c.done(tx); err != nil || old != nil {
			if old != nil {
				t, err = tx.Task(old.TaskID)
			}
			if t != nil {
				size = t.PayloadSize
			}
			return err
		}
		if t == nil {
			return Errorf(ReasonNoRunningTask, "agent %q runs no more, so nothing can be added to its payload", uid).With("agent_name", uid) // callers know it by this id
		}
		if size = t.PayloadSize + len(piece); size > limit {
			return payloadTooLarge(size, limit)
		}
		if err := s.cfg.Limits.admit(tx, t.Owner, more{bytes: len(piece)}); err != nil {
			return err
		}
		if err := tx.AppendPayload(t.ID, piece); err != nil {
			return err
		}
		t.PayloadSize = size
		if err := tx.UpdateTask(t); err != nil {
			return err
		}
		if err := tx.Append(t.event(EventTaskStep, s.now(), fmt.Sprintf("%d bytes were added to the payload", len(piece)))); err != nil {
			return err
		}
		return c.remember(tx, uid, t.ID, s.now())
	})
	return size, err
}

func payloadTooLarge(size, limit int) *Error {
	return Errorf(ReasonLimitReached, "the payload would have %d bytes, and at most %d are kept: put the rest into a file", size, limit).
		With("limit", strconv.Itoa(limit)).With("field", "payload")
}

// CompleteByUID ends the agent's task as completed, with the agent's report. It does not change a task that has ended,
// and returns it. NO_RUNNING_TASK if the agent never had one.
//
// The payload is appended to what AppendPayload has stored; LIMIT_REACHED if both exceed limit.
func (s *Service) CompleteByUID(ctx context.Context, uid, summary string, payload []byte, limit int) (*Task, error) {
	if len(payload) > limit {
		return nil, payloadTooLarge(len(payload), limit)
	}
	return s.conclude(ctx, uid, limit, func(Principal) Outcome {
		return Outcome{Status: TaskCompleted, Summary: summary, Payload: payload, Reported: true}
	})
}

// StopByUID ends the agent's task as stopped. It does not change a task that has ended, and returns it.
func (s *Service) StopByUID(ctx context.Context, uid string) (*Task, error) {
	return s.conclude(ctx, uid, 0, func(p Principal) Outcome {
		return Outcome{Status: TaskStopped, Reason: p.stopReason()}
	})
}

// conclude ends the agent's task at once and its run afterwards. Before it returns, it tells the run to begin nothing
// more. What the run has begun, for example a request to its model, may end by itself; the reconciler ensures that it
// does.
func (s *Service) conclude(ctx context.Context, uid string, limit int, outcome func(Principal) Outcome) (task *Task, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	var a *Agent
	ended := false
	err = s.store.Update(ctx, func(tx Tx) error {
		if a, err = own(tx, p, uid); err != nil {
			return err
		}
		if task, err = tx.ActiveTask(uid); err != nil {
			return err
		}
		if ended = task != nil; ended {
			o := outcome(p)
			if all := task.PayloadSize + len(o.Payload); limit > 0 && all > limit {
				return payloadTooLarge(all, limit)
			}
			return endTask(tx, task, o, s.now())
		}
		last, err := tx.LastTasks([]string{uid})
		if err == nil && len(last) == 0 {
			err = Errorf(ReasonNoRunningTask, "agent %q has no task", uid).With("agent_name", uid)
		}
		if err == nil {
			task = last[0]
		}
		return err
	})
	if err != nil || !ended || task.Dispatched.IsZero() {
		return task, err
	}
	s.cancelRun(ctx, a, task)
	return task, nil
}

// AskStopTask requests the stop of a running task without waiting. If the task has ended, it does nothing.
func (s *Service) AskStopTask(ctx context.Context, id string) error {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx Tx) error {
		t, err := s.task(tx, p, id)
		if err != nil || !t.Active() || !t.StopAsked.IsZero() {
			return err
		}
		t.StopAsked, t.StopReason = s.now(), p.stopReason()
		if err := tx.UpdateTask(t); err != nil {
			return err
		}
		return tx.Append(t.event(EventTaskStopping, t.StopAsked, "stop was asked for by "+p.Name))
	})
}

// cancelRunTimeout limits how long a run's host may take to notice that the run is over.
const cancelRunTimeout = 2 * time.Second

// cancelRun tells the run of an ended task not to continue. It is best effort: the reconciler ends the run in any case.
func (s *Service) cancelRun(ctx context.Context, a *Agent, t *Task) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelRunTimeout)
	defer cancel()
	run := t.run(true)
	run.Linger = lingerMost
	if err := s.places.of(a).Connect(*a).Interrupt(ctx, run, false); err != nil {
		s.log.WarnContext(ctx, "a run was not told that its task has ended", slog.String("task", t.ID), slog.Any("error", err))
	}
}

// Remove requests the deletion of the agent, its workspace and its run, without waiting. A deleted agent is not an
// error.
func (s *Service) Remove(ctx context.Context, uid string) error {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx Tx) error {
		a, err := own(tx, p, uid)
		if err != nil || a.Desired == DesiredDeleted || !a.DeletedAt.IsZero() {
			return err
		}
		a.Desired, a.Attempts, a.RetryAt, a.UpdatedAt = DesiredDeleted, 0, time.Time{}, s.now()
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		return tx.Append(a.event(EventAgentChanged, a.UpdatedAt, "deletion was asked for"))
	})
}

// AgentsByUID returns the agents, including deleted ones, each with its newest task; nil if it does not exist or
// belongs to another owner. It also returns the last output of running tasks, at most 4 KiB each. The recipe of a
// deleted agent may be missing.
func (s *Service) AgentsByUID(ctx context.Context, uids []string) (views []*AgentView, previews []string, err error) {
	p, err := PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := s.snap.refresh(ctx); err != nil {
		return nil, nil, err
	}
	found := make(map[string]*AgentView, len(uids))
	var others []string
	for _, uid := range uids {
		v := s.snap.get(uid)
		if v == nil || v.Task == nil {
			v = s.ended.get(uid)
		}
		if v == nil {
			others = append(others, uid)
		}
		found[uid] = v
	}
	views, previews = make([]*AgentView, len(uids)), make([]string, len(uids))
	err = s.store.View(ctx, func(tx ReadTx) error {
		if err := s.loadEnded(tx, others, found); err != nil {
			return err
		}
		for i, uid := range uids {
			v := found[uid]
			if v == nil || !p.MayTouch(&v.Agent) {
				continue
			}
			views[i] = v
			if v.Task == nil || !v.Task.Active() { // the snapshot does not know the size of its output
				continue
			}
			var err error
			if previews[i], err = preview(tx, v.Task.ID); err != nil {
				return err
			}
		}
		return nil
	})
	return views, previews, err
}

// loadEnded adds the agents, each with its newest task, to found.
func (s *Service) loadEnded(tx ReadTx, uids []string, found map[string]*AgentView) error {
	if len(uids) == 0 {
		return nil
	}
	agents, err := tx.AgentViews(uids)
	if err != nil {
		return err
	}
	tasks, err := tx.LastTasks(uids)
	if err != nil {
		return err
	}
	for _, v := range agents {
		found[v.UID] = v
	}
	for _, t := range tasks {
		if v := found[t.AgentUID]; v != nil {
			v.Task = t
			if !t.Active() {
				if v.Checks, err = tx.Checks(t.ID); err != nil {
					return err
				}
				v.Checks.brief()
			}
			s.ended.put(v)
		}
	}
	return nil
}
