package reconcile

import (
	"context"
	"log/slog"
	"time"

	"fleet/internal/fleet"
)

// collectTries is how often Fleet tries to collect the work of a run before the task ends without it.
const collectTries = 3

// collectNotice is how long collecting takes before the task says so.
const collectNotice = 2 * time.Second

// saveChanges gets the changes of the task from the agent's runner and records them, unless they were recorded before. If
// the runner fails, the record contains the problem, and Fleet tries again before the agent's next task and before the
// agent's deletion. If again is set, saveChanges replaces an earlier record.
func (w *worker) saveChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task, again bool) error {
	if !w.places.Of(a).Traits().Changes || t.Dispatched.IsZero() || a.WorkspaceID == "" || t.Terminal {
		return nil
	}
	var known *fleet.Changes
	if err := w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		known, err = tx.Changes(t.ID)
		return err
	}); err != nil || known != nil && !again && !known.Later {
		return err
	}
	tries := collectTries
	if known != nil && known.Later {
		tries = 1 // it failed before, and the next task must not wait long
	}
	c, err := w.collect(ctx, a, t, tries)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		w.log.WarnContext(ctx, "changes of a task could not be kept", slog.String("task", t.ID), slog.Any("error", err))
		c = &fleet.Changes{Problem: fleet.PublicMessage(err), Later: true}
	case c == nil:
		return nil
	}
	c.At = w.now()
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		if t, err := tx.Task(t.ID); err != nil || t == nil {
			return err
		}
		return tx.PutChanges(t.ID, c)
	})
}

// collect gets the changes of the task from the agent's runner, which first copies the agent's work. That can take long,
// so it has the limit of operations on workspaces. After a restart of the server it continues, because the task ends only
// after it, and copies only what is missing.
func (w *worker) collect(ctx context.Context, a *fleet.Agent, t *fleet.Task, tries int) (*fleet.Changes, error) {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.OpTimeout)
	defer cancel()
	notice := time.AfterFunc(collectNotice, func() {
		err := w.store.Update(ctx, func(tx fleet.Tx) error {
			return tx.Append(t.Event(fleet.EventTaskStep, w.now(), "collecting: the run has ended, and its work is copied"))
		})
		if err != nil && ctx.Err() == nil {
			w.log.WarnContext(ctx, "a step of a task could not be recorded", slog.String("task", t.ID), slog.Any("error", err))
		}
	})
	defer notice.Stop()
	for try := 1; ; try++ {
		c, err := w.places.Of(a).Connect(*a).Changes(ctx, t.FirstRun()) // so that the changes cover all tries
		if err == nil || try >= tries || fleet.ReasonOf(err) == fleet.ReasonAgentOffline {
			return c, err
		}
		again := time.NewTimer(backoff(try, maxRunRetry))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, err
		}
	}
}

// saveMissingChanges saves the changes of the agent's previous task if they could not be saved when it ended. Otherwise the
// new task would count them as its own.
func (w *worker) saveMissingChanges(ctx context.Context, a *fleet.Agent, t *fleet.Task) error {
	if !w.places.Of(a).Traits().Changes {
		return nil
	}
	var owed *fleet.Task
	if err := w.store.View(ctx, func(tx fleet.ReadTx) error {
		tasks, _, err := tx.Tasks(a.UID, 2, 0)
		for _, before := range tasks {
			if err != nil || before.ID == t.ID {
				continue
			}
			var c *fleet.Changes
			if c, err = tx.Changes(before.ID); c != nil && c.Later {
				owed = before
			}
		}
		return err
	}); err != nil || owed == nil {
		return err
	}
	return w.saveChanges(ctx, a, owed, false)
}

// saveLastChanges saves the changes of the agent's newest task before its workspace is deleted. It first ends a run
// that is still under way.
func (w *worker) saveLastChanges(ctx context.Context, a *fleet.Agent) error {
	if !w.places.Of(a).Traits().Changes || a.WorkspaceID == "" {
		return nil
	}
	var last []*fleet.Task
	if err := w.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		last, err = tx.LastTasks([]string{a.UID})
		return err
	}); err != nil || len(last) == 0 || last[0].Terminal { // the changes of a task that is read from a terminal are unknown
		return err
	}
	w.endRun(ctx, a, last[0])
	return w.saveChanges(ctx, a, last[0], false)
}

// endRun kills the run of the task and waits until it has ended, at most as long as a stop may take. If the run
// survives, deleting its workspace ends it.
func (w *worker) endRun(ctx context.Context, a *fleet.Agent, t *fleet.Task) {
	if t.Dispatched.IsZero() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, w.places.Of(a).Grace+deadlineGrace)
	defer cancel()
	r := w.places.Of(a).Connect(*a)
	err := r.Interrupt(limited, t.Run(true), true)
	if err == nil {
		_, err = r.Follow(limited, t.Run(true), t.Cursor, func(fleet.Output) error { return nil })
	}
	if err != nil && fleet.ReasonOf(err) != fleet.ReasonTaskNotFound && ctx.Err() == nil {
		w.log.WarnContext(ctx, "a run did not end before the deletion of its agent", slog.String("task", t.ID), slog.Any("error", err))
	}
}
