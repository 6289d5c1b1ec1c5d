package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// maxRetries returns how often the agent may try again after failed checks.
func maxRetries(c fleet.Checks) int {
	if c.Retries == nil {
		return fleet.DefaultCheckRetries
	}
	return *c.Retries
}

// checkList returns the checks in the form that a runner takes.
func checkList(c fleet.Checks) []fleet.Check {
	all := make([]fleet.Check, len(c.Commands))
	for i, command := range c.Commands {
		all[i] = fleet.Check{ID: strconv.Itoa(i + 1), Command: command, Timeout: cmp.Or(c.Timeout, fleet.DefaultCheckTimeout)}
	}
	return all
}

// countFailed returns how many of the checks did not pass.
func countFailed(results []fleet.CheckResult) (n int) {
	for _, r := range results {
		if r.Status != fleet.CheckPassed {
			n++
		}
	}
	return n
}

// resultText describes the result for people.
func resultText(r fleet.CheckResult) string {
	switch {
	case r.Status == fleet.CheckPassed:
		return "passed"
	case r.ExitCode != nil:
		return fmt.Sprintf("exit code %d", *r.ExitCode)
	}
	return r.Reason
}

// handleRunEnd handles a run that has ended. If the task has checks, they run before the task ends. record is their recorded state.
func (w *worker) handleRunEnd(ctx context.Context, a *fleet.Agent, t *fleet.Task, record *fleet.TaskChecks, o fleet.Outcome) error {
	if o.Status != fleet.TaskCompleted || underContract(a) || t.Options.Attached != nil {
		return w.finish(ctx, t.ID, o)
	}
	checks, err := w.checksOf(ctx, a, record)
	if err != nil {
		w.log.WarnContext(ctx, "checks of task not known, retrying", slog.String("task", t.ID), slog.Any("error", err))
		w.retryLater(t)
		return nil
	}
	switch {
	case len(checks.Commands) == 0:
		return w.finish(ctx, t.ID, o)
	case !t.StopRequestedAt.IsZero(): // the work may be incomplete
		o.Status = fleet.TaskStopped
		return w.finish(ctx, t.ID, o)
	}
	w.startChecks(ctx, a, t, checks, o)
	return nil
}

// underContract reports whether the agent works under a contract. Its own report then decides how its task ends.
func underContract(a *fleet.Agent) bool {
	return a.Toolset == fleet.ToolsetLifecycle || a.Config != nil && a.Config.Reports
}

// checksOf returns all checks of the task: the checks of its agent's project and role, and the task's own checks, which are in
// record.
func (w *worker) checksOf(ctx context.Context, a *fleet.Agent, record *fleet.TaskChecks) (fleet.Checks, error) {
	var checks fleet.Checks
	place, inRole := w.places.Of(a), a.Role != ""
	if a.Config != nil && a.Config.Driver != "" { // the configuration replaces the project, but may name one to work in
		place, inRole = nil, false
		if a.Config.Place != "" {
			place = w.places.Configured(a.Config.Place)
		}
	}
	if place != nil && place.Traits().HasProjectChecks && a.Project != "" {
		project, _, err := w.places.FindProject(ctx, a.Project, place)
		var role fleet.Role
		if err == nil && inRole {
			role, err = place.Catalog.Role(ctx, project.Name, a.Role)
		}
		if reason := fleet.ReasonOf(err); err != nil && reason != fleet.ReasonProjectNotFound && reason != fleet.ReasonRoleNotFound {
			return fleet.Checks{}, err
		}
		checks = project.Checks.With(role.Checks)
	}
	if record == nil {
		return checks, nil
	}
	return checks.With(record.Requested), nil
}

// recordedChecks returns the recorded state of the task's checks; nil if there is none.
func (r *Reconciler) recordedChecks(ctx context.Context, t *fleet.Task) (record *fleet.TaskChecks, err error) {
	if !t.HasChecks {
		return nil, nil //nolint:nilnil // nothing is recorded, which is not an error
	}
	return read(ctx, r.store, func(tx fleet.ReadTx) (*fleet.TaskChecks, error) { return tx.Checks(t.ID) })
}

// startChecks starts to run the checks of the task in the background. They replace the follower of the run.
func (w *worker) startChecks(ctx context.Context, a *fleet.Agent, t *fleet.Task, checks fleet.Checks, o fleet.Outcome) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{taskID: t.ID, run: t.Run(), ctx: ctx, cancel: cancel, done: make(chan struct{}), outcome: o, checks: &checks}
	w.follower = f
	w.progress.begin(t.ID, w.now())
	w.progress.observeOutput(fleet.Output{RunningToolCalls: 1}, w.now()) // not stalled: a check has its own time limit
	agent, task := *a, *t
	go func() {
		defer close(f.done)
		defer cancel()
		f.err = catchPanic(func() error { return w.runChecks(ctx, &agent, &task, checks) })
	}()
}

// runChecks runs the checks that have no result yet, one after the other, and records each result. After a check that was
// stopped, it runs no more checks.
func (w *worker) runChecks(ctx context.Context, a *fleet.Agent, t *fleet.Task, checks fleet.Checks) (err error) {
	ctx, end := w.cfg.Span(ctx, "task.check", a, t)
	defer func() { end(err) }()
	record, err := w.recordedChecks(ctx, t)
	if err != nil {
		return err
	}
	if record == nil {
		record = &fleet.TaskChecks{}
	}
	if record.Try != t.Try {
		record.Try, record.Results = t.Try, nil
	}
	list := checkList(checks)
	for i := len(record.Results); i < len(list); i++ {
		label := fmt.Sprintf("check %d of %d", i+1, len(list))
		if i > 0 && record.Results[i-1].Status == fleet.CheckStopped {
			return nil
		}
		if err := w.recordCheck(ctx, t, nil, label+": "+list[i].Command); err != nil {
			return err
		}
		w.cfg.Fault(FaultCheckBefore)
		startedAt := w.now()
		res, err := w.places.Of(a).Connect(*a).Check(ctx, t.Run(), list[i])
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable:
			return err
		case err != nil:
			res = fleet.CheckResult{Command: list[i].Command, Status: fleet.CheckFailed, Reason: "it could not be run: " + fleet.PublicMessage(err), StartedAt: startedAt, EndedAt: w.now()}
		}
		limitResult(&res)
		w.cfg.Fault(FaultCheckAfter)
		record.Results = append(record.Results, res)
		if err := w.recordCheck(ctx, t, record, label+" "+endText(res)); err != nil {
			return err
		}
	}
	return nil
}

// recordCheck records an event about the task's checks and, unless record is nil, their state.
func (w *worker) recordCheck(ctx context.Context, t *fleet.Task, record *fleet.TaskChecks, text string) error {
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		if current, err := tx.Task(t.ID); err != nil || current == nil || current.Try != t.Try {
			return errors.Join(err, errOtherFollower)
		}
		if record != nil {
			if err := tx.Put(t.ID, record); err != nil {
				return err
			}
		}
		return tx.Append(t.Event(fleet.EventTaskCheck, w.now(), text))
	})
}

// handleChecksEnd handles the end of the checks that f runs. The task ends, the agent tries again, or the checks are retried.
func (w *worker) handleChecksEnd(ctx context.Context, a *fleet.Agent, t *fleet.Task, f *follower) error {
	w.progress.observeOutput(fleet.Output{}, w.now())
	if f.err != nil {
		w.log.WarnContext(ctx, "checks of task failed to run, retrying", slog.String("task", t.ID), slog.Any("error", f.err))
		w.retryLater(t)
		return nil
	}
	record, err := w.recordedChecks(ctx, t)
	if err != nil {
		return err
	}
	o := f.outcome
	if n := len(record.Results); n > 0 { // the task ends when its checks end, not when its run ends
		o.EndedAt = record.Results[n-1].EndedAt
	}
	failed := countFailed(record.Results)
	switch {
	case failed == 0:
		return w.finish(ctx, t.ID, o)
	case !t.StopRequestedAt.IsZero():
		o.Status = fleet.TaskStopped
		return w.finish(ctx, t.ID, o)
	case record.Retries < maxRetries(*f.checks) && repairable(record):
		return w.tryAgain(ctx, t, o, *record)
	}
	o.Status, o.Reason, o.ReasonCode = fleet.TaskFailed, failureReason(record, len(f.checks.Commands)), fleet.CodeChecksFailed
	return w.finish(ctx, t.ID, o)
}

// tryAgain records the next try of the task, after checks have failed. Its run is dispatched afterwards.
func (w *worker) tryAgain(ctx context.Context, t *fleet.Task, o fleet.Outcome, checks fleet.TaskChecks) error {
	checks.Retries++
	err := w.changeTask(ctx, t.ID, func(tx fleet.Tx, current *fleet.Task) error {
		if current.Try != t.Try {
			return nil
		}
		a, err := tx.Agent(t.AgentUID)
		if err != nil {
			return err
		}
		if a != nil && o.HasConversation && !a.HasConversation { // the next try continues the conversation
			a.HasConversation = true
			if err := tx.Update(a); err != nil {
				return err
			}
		}
		current.Try, current.DispatchedAt, current.Cursor = t.Try+1, time.Time{}, ""
		current.AddUsage(o)
		if err := state.WithdrawQuestions(tx, current, w.now()); err != nil {
			return err
		}
		return tx.Put(t.ID, &checks)
	})
	if err == nil {
		w.failures = failures{}
		w.cfg.Fault(FaultRetryRecorded)
	}
	return err
}

// limitResult limits the values in a result of a runner, because the runner's machine may not be trustworthy. It keeps the end
// of the output.
func limitResult(r *fleet.CheckResult) {
	r.Command, r.Reason = fleet.Shorten(r.Command, fleet.MaxCheckCommand), fleet.Shorten(r.Reason, fleet.MaxRowSummary)
	if cut := len(r.Output) - fleet.MaxCheckOutput; cut > 0 {
		r.Output, r.Truncated = r.Output[cut:], true
	}
	r.Output = strings.ToValidUTF8(r.Output, "")
	switch r.Status {
	case fleet.CheckPassed, fleet.CheckFailed, fleet.CheckTimedOut, fleet.CheckStopped:
	default:
		r.Status = fleet.CheckFailed
	}
}

// endText describes the end of the check for the event log.
func endText(r fleet.CheckResult) string {
	if r.Status == fleet.CheckPassed {
		return fmt.Sprintf("passed: %s", r.Command)
	}
	return fmt.Sprintf("failed (%s): %s", resultText(r), r.Command)
}

// repairable reports whether another try of the agent can help: a check has run, and has failed or timed out.
func repairable(c *fleet.TaskChecks) bool {
	for _, r := range c.Results {
		if r.Status == fleet.CheckTimedOut || r.Status == fleet.CheckFailed && r.ExitCode != nil {
			return true
		}
	}
	return false
}

// failureReason returns the reason of a task whose checks failed.
func failureReason(c *fleet.TaskChecks, total int) string {
	var texts []string
	for _, r := range c.Results {
		if r.Status != fleet.CheckPassed {
			texts = append(texts, fmt.Sprintf("%s (%s)", fleet.Shorten(r.Command, fleet.MaxTitle), resultText(r)))
		}
	}
	return fleet.Shorten(fmt.Sprintf("%d of %d checks failed: %s", len(texts), total, strings.Join(texts, ", ")), fleet.MaxRowSummary)
}
