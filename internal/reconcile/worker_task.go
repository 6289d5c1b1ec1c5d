package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// deadlineGrace is how much longer than its timeout a run may take before Fleet ends it. The run's host should have ended it
// earlier.
const deadlineGrace = 5 * time.Second

// These are the steps of a stop. Each is taken if the previous step has not ended the run within the grace period. A step that
// the run's host refuses is retried during that period. A step that did not reach the host is retried until it does, because
// the run does not know until then that it must end.
const (
	stopStepInterrupt = iota
	stopStepKill
	stopStepWorkspace // if Traits.StopEndsRuns is set; otherwise another kill
)

// stopProgress is the progress of the stop of a task.
type stopProgress struct {
	taskID              string
	step                int
	startedAt           time.Time // when the step was first tried; zero if it was not
	undeliveredRecorded bool      // the event log says that a step did not reach the host
	nextAt              time.Time // when the next step or retry is due
}

// failures counts consecutive failures of dispatching and following a task.
type failures struct {
	taskID, cursor string
	count          int       // failures since there was output
	retryAt        time.Time // when to try again
	sinceStop      bool      // these are failures since the stop was requested
	confirmed      bool      // the agent has confirmed that it has the task
}

// maxRunRetryDelay is the longest wait before a dispatch or Follow is retried.
const maxRunRetryDelay = 5 * time.Second

// stepTask takes the next step for the agent's task. next is how long to wait before the following step. workspaceFree means that the
// worker may now work on the agent's workspace.
func (w *worker) stepTask(ctx context.Context, v *fleet.AgentView) (next time.Duration, workspaceFree bool, err error) {
	a, t := &v.Agent, v.Task
	if f := w.follower; f != nil && f.taskID == t.ID && w.runEnded {
		w.follower = nil
		f.delivery.end()
		return 0, false, w.handleFollowerEnd(ctx, v, f)
	}
	shouldRun := a.Desired == fleet.DesiredRunning && a.RestartsRequested == a.RestartsDone
	timeLeft := t.StartedAt.Add(t.Timeout + deadlineGrace).Sub(w.now())
	switch {
	case !shouldRun && t.StopRequestedAt.IsZero():
		return 0, false, w.requestStop(ctx, t, "its agent was stopped or restarted")
	case timeLeft <= 0 && t.StopRequestedAt.IsZero():
		return 0, false, w.requestStop(ctx, t, state.TimeoutReason(t))
	case t.DispatchedAt.IsZero() && !t.StopRequestedAt.IsZero() && (!shouldRun || !startsByItself(a, t)):
		return 0, false, w.finish(ctx, t.ID, fleet.Outcome{Status: fleet.TaskStopped})
	case a.State == fleet.StateStopped || a.State == fleet.StateFailed || a.State == fleet.StateCanceled:
		w.stopFollowing()
		if err := w.saveChanges(ctx, a, t); err != nil {
			return 0, false, err
		}
		return 0, false, w.finish(ctx, t.ID, fleet.Outcome{
			Status: fleet.TaskFailed, Reason: "the agent's workspace is " + string(a.State) + reasonSuffix(a.StateReason), ReasonCode: fleet.CodePlaceLost,
		})
	case t.DispatchedAt.IsZero() && a.State == fleet.StateRunning:
		return 0, false, w.dispatchTask(ctx, a, t, false)
	case t.DispatchedAt.IsZero() && !t.StopRequestedAt.IsZero() && timeLeft <= 0 && !a.State.Moving():
		return 0, false, w.finish(ctx, t.ID, fleet.Outcome{Status: fleet.TaskStopped}) // the run of an unhealthy agent may never exist
	case t.DispatchedAt.IsZero() && !t.StopRequestedAt.IsZero():
		return maxInspectDelay, a.State.Moving(), nil
	case t.DispatchedAt.IsZero():
		return min(timeLeft, maxInspectDelay), a.State.Moving(), nil
	}
	wait := time.Duration(0)
	if w.follower == nil {
		wait = w.untilRetry(t)
		if wait > 0 && t.StopRequestedAt.IsZero() {
			return min(timeLeft, wait), a.State.Moving(), nil
		}
		if wait <= 0 {
			w.followRun(ctx, a, t, false)
		}
	}
	if w.follower != nil {
		if err := w.stepMessages(ctx, a, t); err != nil {
			return 0, false, err
		}
	}
	if t.StopRequestedAt.IsZero() {
		retry, err := w.stepAnswers(ctx, a, t)
		if retry == 0 {
			retry = maxRetryDelay
		}
		if w.stepAllowance(ctx, a, t) {
			retry = min(retry, minRetryDelay)
		}
		stallCheck, stallErr := w.updateStall(ctx, t)
		return min(timeLeft, retry, stallCheck), a.State.Moving(), errors.Join(err, stallErr)
	}
	next, err = w.stepStop(ctx, a, t)
	if wait > 0 {
		next = min(next, wait)
	}
	// If the agent must not run, the worker need not wait for the last step: stopping its workspace ends the run.
	return next, a.State.Moving() || !shouldRun && w.stop.step == stopStepWorkspace && !w.stop.startedAt.IsZero(), err
}

// startsByItself reports whether the agent will work on the task even if Fleet never dispatches it. Such a task can be
// stopped only after it has begun to run. It returns false for an agent with OneTask, because such an agent is deleted
// when its task is stopped.
func startsByItself(a *fleet.Agent, t *fleet.Task) bool {
	return t.SelfStarted && t.Try == 0 && !a.OneTask
}

func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// errDispatched means that another process has recorded a dispatch of the task, which the snapshot has not shown yet.
var errDispatched = errors.New("the task was dispatched meanwhile")

// dispatchTask records the dispatch of the task, and then dispatches the task to the agent. After a crash, Fleet therefore
// asks the agent whether it has the task before it dispatches the task again. again means that the dispatch was recorded
// before, but did not reach the agent.
func (w *worker) dispatchTask(ctx context.Context, a *fleet.Agent, t *fleet.Task, again bool) (err error) {
	ctx, end := w.cfg.Span(ctx, "task.dispatch", a, t)
	defer func() { end(err) }()
	attempt, err := w.failedAttempt(ctx, t)
	if err != nil {
		return err
	}
	if t.DispatchedAt.IsZero() {
		if err := w.saveMissingChanges(ctx, a, t); err != nil {
			return err
		}
		recorded, err := w.recordDispatch(ctx, t, dispatchText(t, attempt))
		switch {
		case errors.Is(err, errDispatched), err == nil && !recorded:
			return nil // the task is loaded again
		case err != nil:
			return err
		}
	}
	w.cfg.Fault(FaultDispatchRecorded)
	run, err := w.newRun(ctx, a, t, attempt, again)
	if errors.Is(err, errTaskEnded) {
		return nil // the agent is loaded again
	}
	if err != nil {
		return err
	}
	err = w.shortCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Connect(*a).Dispatch(ctx, run) })
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		w.cfg.Fault(FaultDispatchAfter)
		if w.failures.taskID != t.ID {
			w.failures = failures{taskID: t.ID, cursor: t.Cursor}
		}
		w.failures.confirmed = true
		w.allowance = knownAllowance{run.TaskID, run.Allowance}
	case errors.Is(err, errSuperseded): // Follow shows whether the agent has received the task
	case fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable:
		w.log.WarnContext(ctx, "task dispatch failed, retrying", slog.String("task", t.ID), slog.Any("error", err))
		w.retryLater(t)
		return nil
	default:
		w.log.WarnContext(ctx, "task dispatch failed", slog.String("task", t.ID), slog.Any("error", err))
		reason := "the agent did not accept the task: " + fleet.PublicMessage(err)
		if fleet.ReasonOf(err) == fleet.ReasonAgentBusy {
			reason += "; this Fleet does not know that work, for example since its database was restored: wait for its end, or restart the agent, which ends it"
		}
		return w.finish(ctx, t.ID, fleet.Outcome{Status: fleet.TaskFailed, Reason: reason, ReasonCode: fleet.ReasonCodeOf(err)})
	}
	w.followRun(ctx, a, t, !again)
	return nil
}

// dispatchText describes the dispatch for the event log. attempt is the attempt before it, see failedAttempt.
func dispatchText(t *fleet.Task, attempt *fleet.Attempt) string {
	switch {
	case attempt != nil:
		return fmt.Sprintf("the agent goes on after a failed attempt: try %d", t.Try+1)
	case t.Resumes():
		return "the agent goes on"
	case t.Try > 0 && t.Try == t.Delegation.WokenTry:
		return "the agent gets the results of the tasks that it has delegated"
	case t.Try > 0:
		return fmt.Sprintf("the agent is told what the checks found, and tries again: try %d", t.Try+1)
	case t.SelfStarted:
		return "the agent begins the task by itself"
	}
	return "the task is handed to the agent"
}

// recordDispatch records the dispatch with the text. recorded is false if the task has ended. If messages were sent before the
// dispatch of the first try, their events come after its event.
func (w *worker) recordDispatch(ctx context.Context, t *fleet.Task, text string) (recorded bool, err error) {
	return w.changeRunningTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
		if !t.DispatchedAt.IsZero() {
			return errDispatched
		}
		t.DispatchedAt = w.now()
		if err := state.PutResultsInPrompt(tx, t, t.DispatchedAt); err != nil {
			return err
		}
		if err := tx.Append(t.Event(fleet.EventTaskStarted, t.DispatchedAt, text)); err != nil || t.Try > 0 || !t.HasMessages {
			return err
		}
		earlyMessages, err := tx.Messages(fleet.MessageFilter{TaskID: t.ID})
		for _, m := range earlyMessages {
			if err := tx.Append(t.Event(fleet.EventTaskMessage, t.DispatchedAt, m.Text)); err != nil {
				return err
			}
		}
		return err
	})
}

// newRun returns the run that the agent gets. attempt is the attempt before it, see failedAttempt. again becomes Run.Again. If the
// task has ended, the error is errTaskEnded.
func (w *worker) newRun(ctx context.Context, a *fleet.Agent, t *fleet.Task, attempt *fleet.Attempt, again bool) (run fleet.Run, err error) {
	run = t.Run()
	run.Again = again
	run.Continues, run.Conversation, run.Allowance = a.HasConversation, a.Conversation, t.Allowance()
	for _, r := range a.AllowedRulesIn(t.ID) {
		run.AllowedRules = append(run.AllowedRules, r.Rule)
	}
	endpoint, grant, err := w.issueToken(ctx, a, t)
	if err != nil {
		return run, err
	}
	run.FleetEndpoint = endpoint
	run.Brief = brief(t, endpoint != nil && grant.Allows(fleet.ActStart))
	if run.Feedback, err = w.feedback(ctx, t, attempt); err != nil {
		return run, err
	}
	if t.Try > 0 {
		run.Timeout = max(t.StartedAt.Add(t.Timeout).Sub(w.now()), time.Second)
	}
	if t.Options.Attachments > 0 {
		run.Attachments, err = read(ctx, w.store, func(tx fleet.ReadTx) ([]fleet.Attachment, error) { return tx.Attachments(t.ID) })
	}
	return run, err
}

// handleFollowerEnd handles the end of the follower f of the agent's task. It dispatches the task again if the agent never received
// it.
func (w *worker) handleFollowerEnd(ctx context.Context, v *fleet.AgentView, f *follower) (err error) {
	a, t := &v.Agent, v.Task
	ctx, end := w.cfg.Span(ctx, "task.followed", a, t)
	defer func() { end(err) }()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.checks != nil:
		return w.handleChecksEnd(ctx, a, t, f)
	case f.err == nil:
		w.cfg.Fault(FaultFinishBefore)
		open, delivered, err := w.messages(ctx, t)
		if err != nil {
			return err
		}
		record, err := w.recordedChecks(ctx, t)
		if err != nil {
			return err
		}
		if err := w.resendOpenMessages(ctx, a, t, open, delivered); err != nil {
			return err
		}
		if !f.outcome.Terminal {
			replace := t.Try > 0 // the previous try may have recorded its changes
			if err := w.saveOrReplaceChanges(ctx, a, t, replace); err != nil {
				return err
			}
		}
		o := reportedOutcome(a, f.outcome)
		if waiting, err := w.awaitResults(ctx, a, t, o); waiting || err != nil {
			return err
		}
		return w.handleRunEnd(ctx, a, t, record, w.withCheckedOutput(t, o))
	case fleet.ReasonOf(f.err) == fleet.ReasonTaskNotFound && !t.StopRequestedAt.IsZero() && (w.confirmed(t) || !startsByItself(a, t)):
		return w.finish(ctx, t.ID, fleet.Outcome{Status: fleet.TaskStopped})
	case fleet.ReasonOf(f.err) == fleet.ReasonTaskNotFound && a.State == fleet.StateRunning:
		if !w.confirmed(t) {
			return w.dispatchTask(ctx, a, t, true) // the agent certainly never received it
		}
		w.failures.confirmed = false
	}
	w.log.WarnContext(ctx, "run not followed, retrying", slog.String("task", t.ID), slog.Any("error", f.err))
	w.retryLater(t)
	return nil
}

// reportedOutcome returns the outcome of the agent's run. If AgentConfig.Reports is set, the agent can also report the
// outcome with a marker at the end of its last message; see withMarker.
func reportedOutcome(a *fleet.Agent, o fleet.Outcome) fleet.Outcome {
	if a.Config == nil || !a.Config.Reports || o.Status != fleet.TaskCompleted || o.Reported {
		return o
	}
	return withMarker(o)
}

// confirmed reports whether the agent has confirmed to this worker that it has the task.
func (w *worker) confirmed(t *fleet.Task) bool {
	return w.failures.taskID == t.ID && w.failures.confirmed
}

// retryLater counts a failure with the task and sets the time of the next try. The waits increase until there is output.
func (w *worker) retryLater(t *fleet.Task) {
	if w.failures.taskID != t.ID || w.failures.cursor != t.Cursor {
		w.failures = failures{taskID: t.ID, cursor: t.Cursor, confirmed: w.confirmed(t), sinceStop: !t.StopRequestedAt.IsZero()}
	}
	w.failures.count++
	w.failures.retryAt = w.now().Add(backoff(w.failures.count, maxRunRetryDelay))
}

// untilRetry returns how long to wait before the task's run is followed again. A stop resets the waits, so that the end of the
// run is noticed soon.
func (w *worker) untilRetry(t *fleet.Task) time.Duration {
	if w.failures.taskID != t.ID {
		return 0
	}
	if !t.StopRequestedAt.IsZero() && !w.failures.sinceStop {
		w.failures.count, w.failures.retryAt, w.failures.sinceStop = 0, time.Time{}, true
	}
	return max(0, w.failures.retryAt.Sub(w.now()))
}

// requestStop requests the stop of the task for a reason that comes from Fleet, not from a caller.
func (w *worker) requestStop(ctx context.Context, t *fleet.Task, reason string) error {
	return w.changeTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
		return state.RequestStop(tx, t, reason, reason, w.now())
	})
}

// stepStop takes the next step to stop the run. The follower reports when the run has ended.
func (w *worker) stepStop(ctx context.Context, a *fleet.Agent, t *fleet.Task) (time.Duration, error) {
	if w.stop.taskID != t.ID {
		w.stop = stopProgress{taskID: t.ID}
	}
	s := &w.stop
	if d := s.nextAt.Sub(w.now()); d > 0 {
		return d, nil
	}
	text, takeStep := w.currentStopStep(a, t)
	if s.startedAt.IsZero() {
		if err := w.changeTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
			return tx.Append(t.Event(fleet.EventTaskStopping, w.now(), text))
		}); err != nil {
			return 0, err
		}
		s.startedAt = w.now()
	}
	spanCtx, end := w.cfg.Span(ctx, "task.stop", a, t)
	err := takeStep(spanCtx)
	end(err)
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.Is(err, errSuperseded):
		return 0, nil
	case err == nil:
		s.nextAt = w.now().Add(w.places.Of(a).Grace)
	default:
		w.log.WarnContext(ctx, "run not stopped, retrying", slog.String("task", t.ID), slog.Any("error", err))
		s.nextAt = w.now().Add(minRetryDelay)
	}
	// If the agent must not run, stopping its workspace must not wait until the step reaches the host.
	shouldRun := a.Desired == fleet.DesiredRunning && a.RestartsRequested == a.RestartsDone
	if fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable && shouldRun {
		return s.nextAt.Sub(w.now()), w.handleUndeliveredStop(ctx, a, t, err)
	}
	if (err == nil || !s.startedAt.Add(w.places.Of(a).Grace).After(s.nextAt)) && s.step < stopStepWorkspace {
		s.step, s.startedAt = s.step+1, time.Time{}
	}
	return s.nextAt.Sub(w.now()), nil
}

// handleUndeliveredStop records that a step of the stop did not reach the run's host. It ends the task once the run has certainly
// ended, because its host enforces its time limit.
func (w *worker) handleUndeliveredStop(ctx context.Context, a *fleet.Agent, t *fleet.Task, why error) error {
	if limit := t.StartedAt.Add(t.Timeout + 2*deadlineGrace); w.now().After(limit) {
		if err := w.saveChanges(ctx, a, t); err != nil { // the host cannot be reached, so this records that the changes are missing
			return err
		}
		return w.finish(ctx, t.ID, fleet.Outcome{
			Status: fleet.TaskFailed, Reason: "its agent could not be reached until its time limit: " + fleet.PublicMessage(why),
		})
	}
	if w.stop.undeliveredRecorded {
		return nil
	}
	w.stop.undeliveredRecorded = true
	return w.changeTask(ctx, t.ID, func(tx fleet.Tx, t *fleet.Task) error {
		return tx.Append(t.Event(fleet.EventTaskStopping, w.now(), "the stop is not delivered yet, trying until it is: "+fleet.PublicMessage(why)))
	})
}

// currentStopStep returns the current step of the stop: a text for the event log, and the function that takes the step.
func (w *worker) currentStopStep(a *fleet.Agent, t *fleet.Task) (text string, takeStep func(context.Context) error) {
	interrupt := func(kill bool) func(context.Context) error {
		return func(ctx context.Context) error {
			return w.shortCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Connect(*a).Interrupt(ctx, t.Run(), kill) })
		}
	}
	switch {
	case w.stop.step == stopStepInterrupt:
		return "interrupting", func(ctx context.Context) error {
			w.cfg.Fault(FaultInterruptBefore)
			err := interrupt(false)(ctx)
			if err == nil {
				w.cfg.Fault(FaultInterruptAfter)
			}
			return err
		}
	case w.stop.step == stopStepWorkspace && w.places.Of(a).Traits().StopEndsRuns:
		return "it survived being killed: stopping its workspace", func(ctx context.Context) error {
			// Without this change, the agent would count as idle as soon as stopping its workspace ends its task.
			if a.State == fleet.StateRunning {
				if err := w.setState(ctx, fleet.StateStopping, "nothing else ended its task", nil); err != nil {
					return err
				}
			}
			return w.slowCall(ctx, a, func(ctx context.Context) error { return w.places.Of(a).Stop(ctx, *a) })
		}
	case w.stop.step == stopStepWorkspace:
		return "it survived being killed: killing it again", interrupt(true)
	}
	return fmt.Sprintf("it did not end within %s: killing", w.places.Of(a).Grace), interrupt(true)
}

// finish records the outcome of the task, unless the task has already ended. Instead of ending, the task may go back to the queue:
// for another attempt, to wait for results of delegated tasks, or to wait for a budget. EndTask requests the deletion of an agent
// with OneTask. finish also sets the state of that agent to deleting, unless the checks of its contract must run first.
func (w *worker) finish(ctx context.Context, taskID string, o fleet.Outcome) error {
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		v, err := state.ReadAgentView(tx, w.uid)
		if err != nil || v == nil || v.Task == nil || v.Task.ID != taskID {
			return err
		}
		for _, requeue := range []func(fleet.Tx, *fleet.Agent, *fleet.Task, fleet.Outcome, time.Time) (bool, error){
			state.QueueRetry, state.AwaitResults, state.HoldForBudget, // AwaitResults again, because results may have come during the checks
		} {
			if again, err := requeue(tx, &v.Agent, v.Task, o, w.now()); again || err != nil {
				w.resetRun()
				return err
			}
		}
		deletes := false // the agent's deletion begins with the end of its task
		err = state.EndTask(tx, &v.Agent, v.Task, o, w.now(), func(a *fleet.Agent) {
			if a.OneTask && (v.Task.Status != fleet.TaskCompleted || !w.contractMayHaveChecks(a)) {
				a.State, a.StateReason = fleet.StateDeleting, ""
				deletes = true
			}
		})
		if err != nil || !deletes {
			return err
		}
		return tx.Append(v.Event(fleet.EventAgentChanged, w.now(), stateText(v.State, "")))
	})
}

// awaitResults makes the task wait for results of delegated tasks if its turn has ended without them. waiting reports whether it waits.
func (w *worker) awaitResults(ctx context.Context, a *fleet.Agent, t *fleet.Task, o fleet.Outcome) (waiting bool, err error) {
	if t.Delegation.Children == 0 && t.Delegation.Grant == nil && w.places.Of(a).Grant(a.Project, a.Role) == nil {
		return false, nil
	}
	err = w.store.Update(ctx, func(tx fleet.Tx) error {
		waiting = false
		v, err := state.ReadAgentView(tx, w.uid)
		if err != nil || v == nil || v.Task == nil || v.Task.ID != t.ID {
			return err
		}
		waiting, err = state.AwaitResults(tx, &v.Agent, v.Task, o, w.now())
		return err
	})
	if waiting && err == nil {
		w.resetRun()
		w.cfg.Fault(FaultResultsAwaited)
	}
	return waiting, err
}

// resetRun resets the worker's state for the next run of the same task.
func (w *worker) resetRun() {
	w.stop, w.failures = stopProgress{}, failures{}
	w.progress.begin("", w.now())
}

// endRunningTask ends the running task of the agent, if it has one. The outcome replaces the outcome of a stop that was requested
// before. a must have been read in tx.
func (r *Reconciler) endRunningTask(tx fleet.Tx, a *fleet.Agent, o fleet.Outcome) error {
	t, err := tx.RunningTask(a.UID)
	if err != nil || t == nil {
		return err
	}
	t.StopRequestedAt = time.Time{}
	return state.EndTask(tx, a, t, o, r.now(), nil)
}

// changeTask changes the agent's task, unless it has ended.
func (w *worker) changeTask(ctx context.Context, id string, change func(tx fleet.Tx, t *fleet.Task) error) error {
	_, err := w.changeRunningTask(ctx, id, change)
	return err
}

// changeRunningTask does the same as changeTask, and reports whether the task was running.
func (w *worker) changeRunningTask(ctx context.Context, id string, change func(tx fleet.Tx, t *fleet.Task) error) (running bool, err error) {
	err = w.store.Update(ctx, func(tx fleet.Tx) error {
		t, err := tx.RunningTask(w.uid)
		running = t != nil && t.ID == id
		if err != nil || !running {
			return err
		}
		if err := change(tx, t); err != nil || t.Status.Ended() {
			return err
		}
		return tx.Update(t)
	})
	return running, err
}
