package reconcile

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// collectTries is how often Fleet tries to collect the work of a run before the task ends without it. It is also how often the server
// may crash while it collects the work before Fleet leaves the work alone.
const collectTries = 3

// These are the problems of changes that Fleet has not collected.
const (
	problemNotCollected = "its work is not collected yet"
	problemLeftAlone    = "the server ended three times while it collected the work, so the work is left alone in the agent's working tree"
	problemTimeout      = "collecting the work took longer than a stop or a deletion waits; what is missing is still in the agent's working tree"
)

// saveChanges gets the changes of the task from the agent's runner and records them, unless they were recorded before. If
// the runner fails, the record contains the problem, and Fleet tries again before the agent's next task and before the
// agent's deletion.
//
// Before it begins, saveChanges counts the try in the record, so that work whose collection crashes the server is left alone after
// collectTries.
func (w *worker) saveChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	return w.saveOrReplaceChanges(ctx, a, t, false)
}

// saveOrReplaceChanges works like saveChanges. If replace is set, it also replaces an earlier record.
func (w *worker) saveOrReplaceChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task, replace bool) error {
	if !w.places.Of(a).Traits().SupportsChanges || t.DispatchedAt.IsZero() || a.WorkspaceID == "" || t.Terminal {
		return nil
	}
	earlier, err := read(ctx, w.store, func(tx fleet.ReadTx) (*fleet.Changes, error) { return tx.Changes(t.ID) })
	if err != nil || earlier != nil && !replace && !earlier.Temporary {
		return err
	}
	attempt := fleet.Changes{Problem: problemNotCollected, Temporary: true}
	tries := collectTries
	if earlier != nil && earlier.Temporary {
		attempt = *earlier
		if earlier.Problem != problemNotCollected {
			tries = 1 // it failed before, and the next task must not wait long
		}
	}
	if earlier != nil {
		attempt.Tries = earlier.Tries
	}
	if attempt.Tries >= collectTries {
		return w.putChanges(ctx, a, t, &fleet.Changes{Problem: problemLeftAlone, Tries: attempt.Tries, At: w.now()})
	}
	attempt.Tries++
	if err := w.putChanges(ctx, a, t, &attempt); err != nil {
		return err
	}
	c, err := w.collectChanges(ctx, a, t, tries)
	switch {
	case ctx.Err() != nil:
		attempt.Tries-- // an orderly end of the server says nothing about the work
		if err := w.putChanges(context.WithoutCancel(ctx), a, t, &attempt); err != nil {
			w.log.WarnContext(ctx, "a try to collect changes was not taken back", slog.String("task", t.ID), slog.Any("error", err))
		}
		return ctx.Err()
	case err != nil:
		w.log.WarnContext(ctx, "changes of a task could not be kept", slog.String("task", t.ID), slog.Any("error", err))
		c = &fleet.Changes{Problem: fleet.PublicMessage(err), Temporary: true}
	case c == nil:
		return w.putChanges(ctx, a, t, nil)
	}
	c.At = w.now()
	return w.putChanges(ctx, a, t, c)
}

// putChanges writes the record of the changes, and records them as work that can land. It does nothing if the task was deleted. A nil
// c means that the task has changed nothing, or does not work in a repository.
func (w *worker) putChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task, c *fleet.Changes) error {
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		if t, err := tx.Task(t.ID); err != nil || t == nil {
			return err
		}
		if err := tx.Put(t.ID, c); err != nil {
			return err
		}
		return state.RecordLanding(tx, a, t, c, w.now())
	})
}

// collectChanges gets the changes of the task from the agent's runner, which first copies the agent's work. That can take
// long, so it may take as long as an operation on a workspace, people can see that it is under way, and a stop or a deletion
// waits for it only for CollectWait. A task ends only after its work was collected, so the next server collects it again if this
// one ends. The runner then copies only what is missing.
func (w *worker) collectChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task, tries int) (*fleet.Changes, error) {
	timeoutCtx, cancel := context.WithTimeout(ctx, w.cfg.OpTimeout)
	defer cancel()
	type result struct {
		changes *fleet.Changes
		err     error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		r.err = catchPanic(func() (err error) {
			r.changes, err = w.tryCollect(timeoutCtx, a, t, tries)
			return err
		})
		done <- r
	}()
	notice, deadline := time.NewTimer(w.cfg.CollectNotice), time.NewTimer(w.cfg.CollectWait)
	defer notice.Stop()
	defer deadline.Stop()
	isAwaited := a.Desired == fleet.DesiredDeleted // a stop or a deletion waits for the collection
	if !isAwaited {
		deadline.Stop()
	}
	isShown := false
	for {
		select {
		case r := <-done:
			if isShown || t.Collecting() {
				w.logNotRecorded(ctx, t, w.changeTask(ctx, t.ID, func(_ fleet.Tx, t *fleet.Task) error {
					t.CollectingAt = time.Time{}
					return nil
				}))
			}
			return r.changes, r.err
		case <-notice.C:
			isShown = true
			w.logNotRecorded(ctx, t, w.showCollecting(ctx, a, t))
		case <-w.wakeUp:
			if v, err := w.load(ctx); err == nil && !isAwaited && w.requestsChanged(a, t, v) {
				isAwaited = true
				deadline.Reset(w.cfg.CollectWait)
				w.logNotRecorded(ctx, t, w.showWaiting(ctx, v))
			}
		case <-deadline.C:
			cancel()
			if r := <-done; r.err == nil {
				return r.changes, nil
			}
			return nil, fleet.Errorf(fleet.ReasonBackendUnavailable, "%s", problemTimeout)
		}
	}
}

// tryCollect gets the changes of the task, with at most the number of tries. It does not try again if the agent is offline.
func (w *worker) tryCollect(ctx context.Context, a *fleet.Agent, t *fleet.Task, tries int) (*fleet.Changes, error) {
	for try := 1; ; try++ {
		c, err := w.places.Of(a).Connect(*a).Changes(ctx, t.FirstRun()) // so that the changes cover all tries
		if err == nil || try >= tries || fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
			return c, err
		}
		if sleep(ctx, backoff(try, maxRunRetryDelay)) != nil {
			return nil, err
		}
	}
}

// requestsChanged reports whether somebody has requested to stop, start, restart or delete the agent, or to stop its task, since a
// and t were read. v is the agent now; nil if it does not exist.
func (w *worker) requestsChanged(a *fleet.Agent, t *fleet.Task, v *fleet.AgentView) bool {
	return v != nil && (v.Desired != a.Desired || v.RestartsRequested != a.RestartsRequested || v.Task != nil && v.Task.ID == t.ID && !v.Task.StopRequestedAt.Equal(t.StopRequestedAt))
}

// showCollecting records, for people, that the work of the task is being collected.
func (w *worker) showCollecting(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	err := w.changeTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
		t.CollectingAt = w.now()
		return tx.Append(t.Event(fleet.EventTaskStep, t.CollectingAt, "collecting: the run has ended, and its work is copied"))
	})
	if err == nil && a.Desired == fleet.DesiredDeleted {
		return w.setState(ctx, fleet.StateDeleting, "the work of its last task is collected first, for at most "+w.cfg.CollectWait.String(), nil)
	}
	return err
}

// showWaiting records, for people, that a stop or a deletion waits until the work is collected.
func (w *worker) showWaiting(ctx context.Context, v *fleet.AgentView) error {
	text := fmt.Sprintf("the work of its task is collected first, for at most %s", w.cfg.CollectWait)
	switch {
	case v.Desired == fleet.DesiredDeleted:
		return w.setState(ctx, fleet.StateDeleting, text, nil)
	case v.Desired == fleet.DesiredStopped || v.RestartsRequested != v.RestartsDone:
		return w.setState(ctx, v.State, text, nil)
	}
	return w.changeTask(ctx, v.Task.ID, func(tx fleet.Tx, t *fleet.Task) error {
		return tx.Append(t.Event(fleet.EventTaskStopping, w.now(), text))
	})
}

// logNotRecorded logs err, if it is not nil: the store could not record the state of a collection. That must not stop the work.
func (w *worker) logNotRecorded(ctx context.Context, t *fleet.Task, err error) {
	if err != nil && ctx.Err() == nil {
		w.log.WarnContext(ctx, "the state of a collection could not be recorded", slog.String("task", t.ID), slog.Any("error", err))
	}
}

// saveMissingChanges saves the changes of the task that the agent got before t, if they could not be saved when it ended. Otherwise
// t would count them as its own.
func (w *worker) saveMissingChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	if !w.places.Of(a).Traits().SupportsChanges {
		return nil
	}
	var unsaved *fleet.Task
	if err := w.store.View(ctx, func(tx fleet.ReadTx) error {
		tasks, err := tx.DispatchedTasks(a.UID, 2) // t is the first of them if it was tried before
		tasks = slices.DeleteFunc(tasks, func(o *fleet.Task) bool { return o.ID == t.ID })
		if err != nil || len(tasks) == 0 {
			return err
		}
		c, err := tx.Changes(tasks[0].ID)
		if c != nil && c.Temporary {
			unsaved = tasks[0]
		}
		return err
	}); err != nil || unsaved == nil {
		return err
	}
	return w.saveChanges(ctx, a, unsaved)
}

// saveLastChanges saves the changes of the task that the agent got last, before its workspace is deleted. It first ends a run that is
// still under way. Tasks that wait for the agent do not count, because they have changed nothing.
func (w *worker) saveLastChanges(ctx context.Context, a *fleet.Agent) error {
	if !w.places.Of(a).Traits().SupportsChanges || a.WorkspaceID == "" {
		return nil
	}
	last, err := read(ctx, w.store, func(tx fleet.ReadTx) ([]*fleet.Task, error) { return tx.DispatchedTasks(a.UID, 1) })
	if err != nil || len(last) == 0 || last[0].Terminal { // the changes of a task that is read from a terminal are unknown
		return err
	}
	w.endRun(ctx, a, last[0])
	return w.saveChanges(ctx, a, last[0])
}

// endRun kills the run of the task and waits until it has ended, at most as long as a stop may take. If the run
// survives, deleting its workspace ends it.
func (w *worker) endRun(ctx context.Context, a *fleet.Agent, t *fleet.Task) {
	if t.DispatchedAt.IsZero() {
		return
	}
	timeoutCtx, cancel := context.WithTimeout(ctx, w.places.Of(a).Grace+deadlineGrace)
	defer cancel()
	r := w.places.Of(a).Connect(*a)
	err := r.Interrupt(timeoutCtx, t.Run(), true)
	if err == nil {
		_, err = r.Follow(timeoutCtx, t.Run(), t.Cursor, func(fleet.Output) error { return nil })
	}
	if err != nil && fleet.ReasonOf(err) != fleet.ReasonTaskNotFound && ctx.Err() == nil {
		w.log.WarnContext(ctx, "a run did not end before the deletion of its agent", slog.String("task", t.ID), slog.Any("error", err))
	}
}
