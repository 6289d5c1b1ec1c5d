package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// deadlineGrace is how much longer than its timeout a run may take before Fleet ends it: its host should have.
const deadlineGrace = 5 * time.Second

// stopping is how far the stop of a task is.
type stopping struct {
	taskID string
	level  int       // 0: nothing was done yet
	next   time.Time // when the next step is due
}

// stepTask does the next thing for the agent's task. done says that the task does not keep the worker from the
// agent's workspace.
func (w *worker) stepTask(ctx context.Context, v *AgentView) (next time.Duration, done bool, err error) {
	a, t := &v.Agent, v.Task
	if f := w.follow; f != nil && f.taskID == t.ID {
		select {
		case <-f.done:
			w.follow = nil
			return w.followed(ctx, v, f)
		default:
		}
	}
	wanted := a.Desired == DesiredRunning && a.Restart == a.Restarted
	switch {
	case !wanted && t.StopAsked.IsZero():
		return 0, false, w.askStop(ctx, t, "its agent was stopped or restarted")
	case t.Dispatched.IsZero() && !t.StopAsked.IsZero():
		return 0, false, w.finish(ctx, t.ID, Outcome{Status: TaskStopped})
	case t.Dispatched.IsZero() && a.State == StateRunning:
		return w.dispatch(ctx, a, t, false)
	case wanted && a.Settled() && a.State != StateRunning && a.State != StateUnhealthy:
		w.unfollow()
		return 0, false, w.finish(ctx, t.ID, Outcome{Status: TaskFailed, Reason: "the agent's workspace is " + string(a.State) + reasonSuffix(a.StateReason)})
	case t.Dispatched.IsZero():
		return inspectMost, true, nil
	}
	if w.follow == nil {
		w.followRun(ctx, a, t)
	}
	if t.StopAsked.IsZero() {
		left := t.StartedAt.Add(t.Timeout + deadlineGrace).Sub(w.now())
		if left > 0 {
			return min(left, retryMost), a.State.Moving(), nil
		}
		return 0, false, w.askStop(ctx, t, timedOut(t))
	}
	next, err = w.stepStop(ctx, a, t)
	return next, false, err
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// timedOut is the reason of a task that ran longer than it may.
func timedOut(t *Task) string { return fmt.Sprintf("it ran longer than its limit of %s", t.Timeout) }

// dispatch hands the task to the agent. That it sets out to is recorded first, so that after a crash the agent is
// asked whether it has the task before it is given it again.
func (w *worker) dispatch(ctx context.Context, a *Agent, t *Task, again bool) (time.Duration, bool, error) {
	if t.Dispatched.IsZero() {
		if err := w.changeTask(ctx, t.ID, func(tx Tx, t *Task) error {
			t.Dispatched = w.now()
			return tx.Append(t.event(EventTaskStarted, t.Dispatched, "the task is handed to the agent"))
		}); err != nil {
			return 0, false, err
		}
	}
	w.cfg.Fault(FaultDispatchRecorded)
	err := w.op(ctx, a, func(ctx context.Context) error { return w.backend.Dispatch(ctx, *a, t.run(again)) })
	switch {
	case ctx.Err() != nil:
		return 0, false, ctx.Err()
	case err == nil, errors.Is(err, context.Canceled):
		w.cfg.Fault(FaultDispatchAfter)
		w.followRun(ctx, a, t)
		return 0, false, nil
	case ReasonOf(err) == ReasonBackendUnavailable:
		w.log.WarnContext(ctx, "a task was not handed over and is tried again", slog.String("task", t.ID), slog.Any("error", err))
		w.followRun(ctx, a, t) // tells whether the agent has it after all
		return 0, false, nil
	}
	w.log.WarnContext(ctx, "a task was not handed over", slog.String("task", t.ID), slog.Any("error", err))
	return 0, false, w.finish(ctx, t.ID, Outcome{Status: TaskFailed, Reason: "the agent did not take it: " + Words(err)})
}

// followed deals with the end of following.
func (w *worker) followed(ctx context.Context, v *AgentView, f *follower) (time.Duration, bool, error) {
	a, t := &v.Agent, v.Task
	w.reached(f.err)
	switch {
	case ctx.Err() != nil:
		return 0, false, ctx.Err()
	case f.err == nil:
		w.cfg.Fault(FaultFinishBefore)
		return 0, false, w.finish(ctx, t.ID, f.outcome)
	case ReasonOf(f.err) == ReasonTaskNotFound && !t.StopAsked.IsZero():
		return 0, false, w.finish(ctx, t.ID, Outcome{Status: TaskStopped})
	case ReasonOf(f.err) == ReasonTaskNotFound && a.State == StateRunning:
		return w.dispatch(ctx, a, t, true) // certainly never given
	}
	w.log.WarnContext(ctx, "a run cannot be followed and is tried again", slog.String("task", t.ID), slog.Any("error", f.err))
	w.wait(ctx, retryFirst)
	return 0, false, nil
}

// askStop asks for the stop of the task for a reason of Fleet's own.
func (w *worker) askStop(ctx context.Context, t *Task, reason string) error {
	return w.changeTask(ctx, t.ID, func(tx Tx, t *Task) error {
		if t.StopAsked.IsZero() {
			t.StopAsked, t.StopReason = w.now(), reason
		}
		return tx.Append(t.event(EventTaskStopping, w.now(), reason))
	})
}

// stepStop does the next thing to stop the run: interrupt it, then kill it, then stop the workspace under it. That it
// has ended is for the follower to say.
func (w *worker) stepStop(ctx context.Context, a *Agent, t *Task) (time.Duration, error) {
	if w.stop.taskID != t.ID {
		w.stop = stopping{taskID: t.ID}
	}
	if d := w.stop.next.Sub(w.now()); d > 0 && w.stop.level > 0 {
		return d, nil
	}
	text, act := "", func(ctx context.Context) error { return w.backend.Interrupt(ctx, *a, t.run(true), true) }
	switch level := w.stop.level; {
	case level == 0:
		w.cfg.Fault(FaultInterruptBefore)
		text, act = "interrupting", func(ctx context.Context) error { return w.backend.Interrupt(ctx, *a, t.run(true), false) }
	case level >= 2 && w.traits.StopEndsRuns:
		text, act = "it survived being killed: stopping its workspace", func(ctx context.Context) error { return w.backend.Stop(ctx, *a) }
	default:
		text = fmt.Sprintf("it did not end within %s: killing", w.cfg.StopGrace)
	}
	if err := w.changeTask(ctx, t.ID, func(tx Tx, t *Task) error {
		return tx.Append(t.event(EventTaskStopping, w.now(), text))
	}); err != nil {
		return 0, err
	}
	if err := w.op(ctx, a, act); err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "a run could not be interrupted and is tried again", slog.String("task", t.ID), slog.Any("error", err))
		return retryFirst, nil
	}
	if w.stop.level == 0 {
		w.cfg.Fault(FaultInterruptAfter)
	}
	w.stop.level++
	w.stop.next = w.now().Add(w.cfg.StopGrace)
	return w.cfg.StopGrace, nil
}

// finish records how the task ended, unless it has ended before.
func (w *worker) finish(ctx context.Context, taskID string, o Outcome) error {
	return w.changeTask(ctx, taskID, func(tx Tx, t *Task) error { return w.end(tx, t, o) })
}

// end makes the task one that has ended so, with its event.
func (r *Reconciler) end(tx Tx, t *Task, o Outcome) error {
	t.Status, t.Reason = o.Status, o.Reason
	if !t.StopAsked.IsZero() && o.Status != TaskCompleted {
		t.Status, t.Reason = TaskStopped, t.StopReason
		if t.StopReason == timedOut(t) {
			t.Status = TaskFailed
		}
	}
	if t.Status == TaskFailed && t.Reason == "" {
		t.Reason = "the agent does not say why"
	}
	t.EndedAt = r.now()
	t.Summary, t.ExitCode, t.CostUSD, t.Turns = o.Summary, o.ExitCode, o.CostUSD, o.Turns
	if len(o.Payload) > 0 {
		t.PayloadSize = len(o.Payload)
		if err := tx.PutPayload(t.ID, o.Payload); err != nil {
			return err
		}
	}
	text := t.Reason
	if text == "" {
		text = t.Headline()
	}
	a, err := tx.Agent(t.AgentUID)
	if err != nil {
		return err
	}
	if a != nil && a.DeletedAt.IsZero() {
		a.UpdatedAt = t.EndedAt
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
	}
	if err := tx.UpdateTask(t); err != nil {
		return err
	}
	return tx.Append(t.event(EventTaskEnded, t.EndedAt, text))
}

// endTask ends the agent's active task, if it has one, in tx.
func (r *Reconciler) endTask(tx Tx, agentUID string, s TaskStatus, reason string) error {
	t, err := tx.ActiveTask(agentUID)
	if err != nil || t == nil {
		return err
	}
	t.StopAsked = time.Time{}
	return r.end(tx, t, Outcome{Status: s, Reason: reason})
}

// changeTask changes the task, unless it has ended.
func (w *worker) changeTask(ctx context.Context, id string, change func(tx Tx, t *Task) error) error {
	return w.store.Update(ctx, func(tx Tx) error {
		t, err := tx.Task(id)
		if err != nil || t == nil || !t.Active() {
			return err
		}
		if err := change(tx, t); err != nil || t.Status.Ended() {
			return err
		}
		return tx.UpdateTask(t)
	})
}
