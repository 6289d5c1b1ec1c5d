package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// A worker waits this long before it inspects a workspace again, or retries a failed step.
const (
	minInspectDelay = 100 * time.Millisecond
	maxInspectDelay = 2 * time.Second
	minRetryDelay   = 500 * time.Millisecond
	maxRetryDelay   = 30 * time.Second
)

// worker does the work for one agent, one thing at a time, while it holds the agent's lease.
type worker struct {
	*Reconciler
	uid              string
	wakeUp           chan struct{}
	follower         *follower                      // of the agent's running task
	runEnded         bool                           // the follower had ended before the agent was loaded, so the loaded task has all its output
	stop             stopProgress                   // progress of the task's stop
	interrupted      atomic.Pointer[interruptedRun] // the last run that was interrupted because its task has ended
	progress         progress                       // progress of the task
	failures         failures                       // consecutive errors of dispatching and following the task
	answerFailures   answerFailures                 // consecutive errors of delivering answers
	allowance        knownAllowance                 // the allowance that the run's host knows
	contractChecked  bool                           // the checks of its contract were run, or there are none
	rescueSince      time.Time                      // since when a deletion waits for the agent's workspace to start; zero if it does not
	unreachableSince time.Time                      // since when a deletion waits for a workspace that cannot be reached; zero if it does not
	startedForRescue bool                           // the deletion has started the workspace to fetch the agent's work
	inspectDelay     time.Duration                  // how long until the next inspection of a workspace whose state is changing
}

// run works while the agent needs work. It removes the worker only after it has released the lease. Otherwise it would release
// the lease of the agent's next worker, because all workers of a reconciler take leases in the same name.
func (w *worker) run(ctx context.Context) {
	for {
		if idle := w.workUnderLease(ctx); w.removeWorker(w, !idle) {
			return
		}
	}
}

// workUnderLease works while the worker holds the lease. idle means that the agent needs no more work. Otherwise another
// process has the lease, the lease could not be taken or was lost, or the reconciler stops.
func (w *worker) workUnderLease(ctx context.Context) (idle bool) {
	w.discardWakeUp() // the scan that has woken the worker has also brought the snapshot up to date
	if !needsWork(w.snap.Get(w.uid)) {
		return true
	}
	leaseCtx, release, ok, err := w.leases.hold(ctx, fleet.AgentLeasePrefix+w.uid)
	if err != nil || !ok {
		if err != nil && ctx.Err() == nil {
			w.log.ErrorContext(ctx, "lease failed", slog.String("agent", w.uid), slog.Any("error", err))
		}
		return false // the next scan of all agents tries again
	}
	defer release()
	defer w.stopFollowing()
	for {
		w.discardWakeUp()
		w.runEnded = w.follower != nil && isClosed(w.follower.done)
		v, err := w.load(leaseCtx)
		switch {
		case leaseCtx.Err() != nil:
			return false
		case err != nil:
			w.log.ErrorContext(ctx, "agent not loaded, retrying", slog.String("agent", w.uid), slog.Any("error", err))
			_ = sleep(leaseCtx, minRetryDelay) // wait would return at once if a run has ended
			continue
		case !needsWork(v):
			return true
		}
		var next time.Duration
		err = catchPanic(func() (err error) {
			next, err = w.step(leaseCtx, v)
			return err
		})
		if errors.Is(err, fleet.ErrLeaseLost) {
			return false
		}
		if err != nil && leaseCtx.Err() == nil {
			w.log.ErrorContext(ctx, "step failed, retrying", slog.String("agent", v.Name), slog.Any("error", err))
			delay := minRetryDelay
			if errors.Is(err, errPanic) { // it will probably happen again
				delay = w.cfg.LeaseTTL
			}
			_ = sleep(leaseCtx, delay)
			continue
		}
		if next < 0 { // a time has passed during the step, or the step is wrong and would be repeated without end
			next = minInspectDelay
		}
		if next > 0 {
			w.wait(leaseCtx, next)
		}
	}
}

// errPanic is the cause of the error of catchPanic after a panic.
var errPanic = errors.New("panic")

// catchPanic calls f, and returns a panic as an error with its stack. A text that one agent has written may cause the panic. Without
// catchPanic, the server would then end after each start, and stop the work of all agents.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, p, debug.Stack())
		}
	}()
	return f()
}

// load returns the agent; nil if it was deleted. It reads the snapshot, so that workers share the reads of the store. It
// reads the store itself when a run must be followed, at first or again, because the snapshot does not have a task's Cursor.
func (w *worker) load(ctx context.Context) (v *fleet.AgentView, err error) {
	if err := w.snap.RefreshAgents(ctx, w.uid); err != nil {
		return nil, err
	}
	v = w.snap.Get(w.uid)
	if v == nil || v.Task == nil || v.Task.DispatchedAt.IsZero() || w.follower != nil && w.follower.taskID == v.Task.ID && (!w.runEnded || w.follower.err == nil) {
		return v, nil
	}
	return read(ctx, w.store, func(tx fleet.ReadTx) (*fleet.AgentView, error) { return state.ReadAgentView(tx, w.uid) })
}

// discardWakeUp discards a pending wake-up, because the worker is about to load the agent.
func (w *worker) discardWakeUp() {
	select {
	case <-w.wakeUp:
	default:
	}
}

// isClosed reports whether the channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// wait waits until the worker is woken, its follower or delivery has ended, or d is over.
func (w *worker) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	var ended, delivered <-chan struct{}
	if w.follower != nil {
		ended = w.follower.done
		if w.follower.delivery != nil {
			delivered = w.follower.delivery.done
		}
	}
	select {
	case <-w.wakeUp:
	case <-ended:
	case <-delivered:
	case <-t.C:
	case <-ctx.Done():
	}
}

// step takes the next step for the agent, and returns how long to wait before the step after it.
func (w *worker) step(ctx context.Context, v *fleet.AgentView) (time.Duration, error) {
	a := &v.Agent
	if v.Task != nil && a.Desired != fleet.DesiredDeleted {
		next, workspaceFree, err := w.stepTask(ctx, v)
		if err != nil || !workspaceFree {
			return next, err
		}
	}
	if d := a.RetryAt.Sub(w.now()); d > 0 && d <= maxRetryDelay { // a server whose clock was ahead has written a later time
		return d, nil
	}
	switch {
	case a.Desired == fleet.DesiredDeleted:
		return w.delete(ctx, v)
	case a.Desired == fleet.DesiredStopped && a.WorkspaceID == "":
		return 0, w.setState(ctx, fleet.StateStopped, "it was stopped before its workspace was created", nil)
	case a.WorkspaceID == "":
		return w.provision(ctx, a)
	case a.Desired == fleet.DesiredStopped && a.State != fleet.StateStopping:
		return w.stopWorkspace(ctx, a)
	case a.RestartsRequested != a.RestartsDone && (a.State == fleet.StateStopped || a.State == fleet.StateFailed || a.State == fleet.StateCanceled):
		return w.startWorkspace(ctx, a)
	case a.RestartsRequested != a.RestartsDone && !a.State.Moving():
		return w.stopWorkspace(ctx, a)
	case a.State.Moving():
		return w.inspectWorkspace(ctx, a)
	}
	return maxRetryDelay, nil // the workspace needs nothing; wait for the task
}

// errSuperseded means that an operation was cancelled because the agent's desired state has changed.
var errSuperseded = errors.New("the desired state has changed meanwhile")

// slowCall performs a slow operation on the agent's workspace. The number of concurrent slow operations is small.
func (w *worker) slowCall(ctx context.Context, a *fleet.Agent, fn func(context.Context) error) error {
	return w.call(ctx, a, w.opSlots, w.cfg.OpTimeout, fn)
}

// shortCall performs a short operation, which must not wait for slow operations of other agents.
func (w *worker) shortCall(ctx context.Context, a *fleet.Agent, fn func(context.Context) error) error {
	return w.call(ctx, a, w.callSlots, w.cfg.CallTimeout, fn)
}

// call runs fn when a slot is free, and waits for its end. It cancels fn if fn takes longer than the limit, or if the agent's
// desired state changes meanwhile. In the latter case, the error is errSuperseded unless fn succeeded.
func (w *worker) call(ctx context.Context, a *fleet.Agent, slots chan struct{}, limit time.Duration, fn func(context.Context) error) error {
	if err := w.takeSlot(ctx, slots); err != nil {
		return err
	}
	defer func() { <-slots }()
	timeoutCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- catchPanic(func() error { return fn(timeoutCtx) }) }()
	for superseded := false; ; {
		select {
		case err := <-result:
			switch {
			case err == nil, ctx.Err() != nil:
				return err
			case superseded:
				return errSuperseded
			case timeoutCtx.Err() != nil:
				return fleet.Errorf(fleet.ReasonBackendUnavailable, "the agents' host did not answer within %s", limit).WithCause(err)
			}
			return err
		case <-w.wakeUp:
			if v, err := w.load(ctx); err == nil && v != nil && v.Desired != a.Desired {
				superseded = true
				cancel()
			}
		}
	}
}

// takeSlot takes a slot. If none is free, it waits and counts the worker as waiting.
func (w *worker) takeSlot(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// change calls fn with the agent, writes the agent, and appends an event with the returned text. If the text is empty, it writes
// neither. If the agent was deleted, it does nothing.
func (w *worker) change(ctx context.Context, typ fleet.EventType, fn func(a *fleet.Agent, tx fleet.Tx) (text string, err error)) error {
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		a, err := tx.Agent(w.uid)
		if err != nil || a == nil || !a.DeletedAt.IsZero() {
			return err
		}
		text, err := fn(a, tx)
		if err != nil || text == "" {
			return err
		}
		now := w.now()
		a.UpdatedAt = now
		if err := tx.Update(a); err != nil {
			return err
		}
		return tx.Append(a.Event(typ, now, text))
	})
}

// setState writes the agent's state and reason. If also is not nil, setState calls it to make more changes to the agent.
func (w *worker) setState(ctx context.Context, s fleet.State, reason string, also func(a *fleet.Agent)) error {
	w.inspectDelay = 0
	return w.change(ctx, fleet.EventAgentChanged, func(a *fleet.Agent, _ fleet.Tx) (string, error) {
		a.State, a.StateReason = s, reason
		if also != nil {
			also(a)
		}
		return stateText(s, reason), nil
	})
}

func stateText(s fleet.State, reason string) string {
	if reason == "" {
		return "workspace is " + string(s)
	}
	return fmt.Sprintf("workspace is %s: %s", s, reason)
}

// backoff returns how long to wait after the given number of consecutive failures.
func backoff(failures int, limit time.Duration) time.Duration {
	return min(minRetryDelay<<min(max(failures-1, 0), 10), limit)
}

// sleep waits for the duration, or until the context is done, and returns the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// recordFailure records that an operation on the agent failed; before is the agent when the operation began. If the host did not
// answer, or final is empty, the operation is retried after RetryAt, with increasing waits. Otherwise the agent gets the state
// final until somebody requests another state or a restart. If that has happened meanwhile, the failure is ignored.
func (w *worker) recordFailure(ctx context.Context, before *fleet.Agent, err error, final fleet.State) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, errSuperseded) {
		return nil
	}
	w.log.WarnContext(ctx, "workspace operation failed", slog.String("agent", before.Name), slog.Any("error", err))
	retry := final == "" || fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable
	return w.change(ctx, fleet.EventAgentChanged, func(a *fleet.Agent, _ fleet.Tx) (string, error) {
		if a.Desired != before.Desired || a.RestartsRequested != before.RestartsRequested {
			return "", nil
		}
		a.StateReason = fleet.PublicMessage(err)
		if retry {
			a.Attempts++
			d := backoff(a.Attempts, maxRetryDelay)
			a.RetryAt = w.now().Add(d)
			return fmt.Sprintf("attempt %d failed, the next one is in %s: %s", a.Attempts, d, a.StateReason), nil
		}
		a.State, a.RestartsDone, a.Attempts, a.RetryAt = final, a.RestartsRequested, 0, time.Time{}
		return stateText(a.State, a.StateReason), nil
	})
}
