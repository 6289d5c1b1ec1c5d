package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// How long a worker waits before it looks or tries again.
const (
	inspectFirst = 100 * time.Millisecond
	inspectMost  = 2 * time.Second
	retryFirst   = 500 * time.Millisecond
	retryMost    = 30 * time.Second
)

// worker does what is to be done for one agent, one thing at a time, while it holds the agent's lease.
type worker struct {
	*Reconciler
	uid     string
	poked   chan struct{}
	follow  *follower     // of the agent's running task
	stop    stopping      // how far the stop of that task is
	inspect time.Duration // how long until the next look at a moving workspace
}

func (w *worker) run(ctx context.Context) {
	held, release, ok, err := w.hold(ctx, "agent/"+w.uid)
	if err != nil || !ok {
		if err != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "lease failed", slog.String("agent", w.uid), slog.Any("error", err))
		}
		w.leave(w, true) // the next scan tries again
		return
	}
	defer release()
	defer func() { w.unfollow() }()
	for {
		v, err := w.load(held)
		switch {
		case held.Err() != nil:
			w.leave(w, true)
			return
		case err != nil:
			w.log.ErrorContext(ctx, "an agent cannot be loaded", slog.String("agent", w.uid), slog.Any("error", err))
			w.wait(held, retryFirst)
			continue
		case v == nil || !needsWork(v):
			if w.leave(w, false) {
				return
			}
			w.drain()
			continue
		}
		next, err := w.step(held, v)
		if err != nil && held.Err() == nil {
			w.log.ErrorContext(ctx, "a step failed and is tried again", slog.String("agent", v.Name), slog.Any("error", err))
			next = retryFirst
		}
		if next > 0 {
			w.wait(held, next)
		}
	}
}

// load returns the agent as it is in the store, nil when it was deleted.
func (w *worker) load(ctx context.Context) (v *AgentView, err error) {
	err = w.store.View(ctx, func(tx ReadTx) error {
		views, err := tx.AgentViews([]string{w.uid})
		if err == nil && len(views) > 0 {
			v = views[0]
		}
		return err
	})
	return v, err
}

// drain forgets that the worker was poked: it is about to look.
func (w *worker) drain() {
	select {
	case <-w.poked:
	default:
	}
}

// wait waits until something has changed, at most d.
func (w *worker) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	var ended <-chan struct{}
	if w.follow != nil {
		ended = w.follow.done
	}
	select {
	case <-w.poked:
	case <-ended:
	case <-t.C:
	case <-ctx.Done():
	}
}

// step does the next thing for the agent and returns how long to wait before the one after it, 0 for not at all.
func (w *worker) step(ctx context.Context, v *AgentView) (time.Duration, error) {
	a := &v.Agent
	if v.Task != nil && a.Desired != DesiredDeleted {
		next, done, err := w.stepTask(ctx, v)
		if err != nil || !done {
			return next, err
		}
	}
	if d := a.RetryAt.Sub(w.now()); d > 0 && !a.RetryAt.IsZero() {
		return d, nil
	}
	switch {
	case a.Desired == DesiredDeleted:
		return w.delete(ctx, v)
	case a.Desired == DesiredStopped && a.WorkspaceID == "":
		return 0, w.set(ctx, a, StateStopped, "it was stopped before it was made", nil)
	case a.WorkspaceID == "":
		return w.provision(ctx, a)
	case a.Desired == DesiredStopped && a.State != StateStopping:
		return w.stopWorkspace(ctx, a)
	case a.Restart != a.Restarted && (a.State == StateStopped || a.State == StateFailed || a.State == StateCanceled):
		return w.startWorkspace(ctx, a)
	case a.Restart != a.Restarted && !a.State.Moving():
		return w.stopWorkspace(ctx, a)
	case a.State.Moving():
		return w.look(ctx, a)
	}
	return retryMost, nil // nothing to do but wait for the task
}

// op runs fn, and cancels it when something else is wanted of the agent meanwhile.
func (w *worker) op(ctx context.Context, a *Agent, fn func(context.Context) error) error {
	select {
	case w.slots <- struct{}{}:
		defer func() { <-w.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	opCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- fn(opCtx) }()
	for {
		select {
		case err := <-result:
			w.reached(err)
			return err
		case <-w.poked:
			if v, err := w.load(ctx); err == nil && v != nil && v.Desired != a.Desired {
				cancel()
			}
		}
	}
}

// change writes the agent, as change leaves it, with an event, unless nothing differs.
func (w *worker) change(ctx context.Context, typ EventType, change func(a *Agent, tx Tx) (text string, err error)) error {
	return w.store.Update(ctx, func(tx Tx) error {
		a, err := tx.Agent(w.uid)
		if err != nil || a == nil || !a.DeletedAt.IsZero() {
			return err
		}
		text, err := change(a, tx)
		if err != nil {
			return err
		}
		now := w.now()
		a.UpdatedAt = now
		if err := tx.UpdateAgent(a); err != nil {
			return err
		}
		return tx.Append(a.event(typ, now, text))
	})
}

// set brings the agent into the state, and makes other changes with it.
func (w *worker) set(ctx context.Context, a *Agent, s State, reason string, also func(a *Agent)) error {
	w.inspect = 0
	return w.change(ctx, EventAgentChanged, func(a *Agent, _ Tx) (string, error) {
		a.State, a.StateReason = s, reason
		if also != nil {
			also(a)
		}
		return stateText(s, reason), nil
	})
}

func stateText(s State, reason string) string {
	if reason == "" {
		return "workspace is " + string(s)
	}
	return fmt.Sprintf("workspace is %s: %s", s, reason)
}

// failed records that what was tried for the agent did not succeed: when trying again may help, it is tried again
// later and later, otherwise the agent goes into the state and waits for somebody to decide.
func (w *worker) failed(ctx context.Context, a *Agent, err error, final State) (time.Duration, error) {
	if errors.Is(err, context.Canceled) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		return 0, nil // something else is wanted by now
	}
	w.log.WarnContext(ctx, "an agent's workspace", slog.String("agent", a.Name), slog.Any("error", err))
	retry := final == "" || ReasonOf(err) == ReasonBackendUnavailable
	return 0, w.change(ctx, EventAgentChanged, func(a *Agent, _ Tx) (string, error) {
		a.StateReason = Words(err)
		if retry {
			a.Attempts++
			d := min(retryFirst<<min(a.Attempts-1, 10), retryMost)
			a.RetryAt = w.now().Add(d)
			return fmt.Sprintf("attempt %d failed, the next one is in %s: %s", a.Attempts, d, a.StateReason), nil
		}
		a.State, a.Restarted, a.Attempts, a.RetryAt = final, a.Restart, 0, time.Time{}
		return stateText(a.State, a.StateReason), nil
	})
}
