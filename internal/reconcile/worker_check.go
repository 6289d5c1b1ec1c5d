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
)

// retries returns how often the agent may try again.
func retries(c fleet.Checks) int {
	if c.Retries == nil {
		return fleet.DefaultRetries
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

// failedChecks counts the results that are not passed.
func failedChecks(results []fleet.CheckResult) (n int) {
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

// ended deals with a run that has ended: its checks are run before its task ends, if it has any. known is what is known of them.
func (w *worker) ended(ctx context.Context, a *fleet.Agent, t *fleet.Task, known *fleet.TaskChecks, o fleet.Outcome) error {
	if o.Status != fleet.TaskCompleted || contracted(a) {
		return w.finish(ctx, t.ID, o)
	}
	checks, err := w.checksOf(ctx, a, known)
	if err != nil {
		w.log.WarnContext(ctx, "the checks of a task are not known and are asked for again", slog.String("task", t.ID), slog.Any("error", err))
		w.retryLater(t)
		return nil
	}
	switch {
	case len(checks.Commands) == 0:
		return w.finish(ctx, t.ID, o)
	case !t.StopAsked.IsZero(): // nobody knows whether its work is good
		o.Status = fleet.TaskStopped
		return w.finish(ctx, t.ID, o)
	}
	w.checkRun(ctx, a, t, checks, o)
	return nil
}

// contracted says whether the agent works under a contract: what it says of its task's end is final.
func contracted(a *fleet.Agent) bool {
	return a.Toolset == fleet.ToolsetLifecycle || a.Config != nil && a.Config.Reports
}

// checksOf returns the checks of the task: of the project and the role of its agent, and of its own, which known has.
func (w *worker) checksOf(ctx context.Context, a *fleet.Agent, known *fleet.TaskChecks) (fleet.Checks, error) {
	var checks fleet.Checks
	place, inRole := w.places.Of(a), a.Role != ""
	if a.Config != nil && a.Config.Driver != "" { // it makes the agent, and may say where that works
		place, inRole = nil, false
		if a.Config.Place != "" {
			place = w.places.Lookup(a.Config.Place)
		}
	}
	if place != nil && place.Facts.ProjectChecks && a.Project != "" {
		project, _, err := w.places.FindProject(ctx, a.Project, place)
		var role fleet.Role
		if err == nil && inRole {
			role, err = place.Catalog.Role(ctx, project.Name, a.Role)
		}
		if code := fleet.ReasonOf(err); err != nil && code != fleet.ReasonProjectNotFound && code != fleet.ReasonRoleNotFound {
			return fleet.Checks{}, err
		}
		checks = project.Checks.With(role.Checks)
	}
	if known == nil {
		return checks, nil
	}
	return checks.With(known.Asked), nil
}

// checks returns what is known of the task's checks; nil when nothing is.
func (r *Reconciler) checks(ctx context.Context, t *fleet.Task) (known *fleet.TaskChecks, err error) {
	if !t.HasChecks {
		return nil, nil //nolint:nilnil // nothing is known, and that is no error
	}
	err = r.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		known, err = tx.Checks(t.ID)
		return err
	})
	return known, err
}

// checkRun begins to run the checks of the task's run in the background, in the place of following it.
func (w *worker) checkRun(ctx context.Context, a *fleet.Agent, t *fleet.Task, checks fleet.Checks, o fleet.Outcome) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{taskID: t.ID, run: t.Run(true), ctx: ctx, cancel: cancel, done: make(chan struct{}), outcome: o, checks: &checks}
	w.follow = f
	w.progress.begin(t.ID, w.now())
	w.progress.saw(fleet.Output{Open: 1}, w.now()) // a check has a time limit of its own
	agent, task := *a, *t
	go func() {
		defer close(f.done)
		defer cancel()
		f.err = w.runChecks(ctx, &agent, &task, checks)
	}()
}

// runChecks runs the checks that have no result yet, one after the other, and records how each went. After one that was
// stopped it runs no more.
func (w *worker) runChecks(ctx context.Context, a *fleet.Agent, t *fleet.Task, checks fleet.Checks) (err error) {
	ctx, end := w.cfg.Span(ctx, "task.check", a, t)
	defer func() { end(err) }()
	known, err := w.checks(ctx, t)
	if err != nil {
		return err
	}
	if known == nil {
		known = &fleet.TaskChecks{}
	}
	if known.Try != t.Try {
		known.Try, known.Results = t.Try, nil
	}
	list := checkList(checks)
	for i := len(known.Results); i < len(list); i++ {
		of := fmt.Sprintf("check %d of %d", i+1, len(list))
		if i > 0 && known.Results[i-1].Status == fleet.CheckStopped {
			return nil
		}
		if err := w.noteCheck(ctx, t, nil, of+": "+list[i].Command); err != nil {
			return err
		}
		w.cfg.Fault(FaultCheckBefore)
		started := w.now()
		res, err := w.places.Of(a).Connect(*a).Check(ctx, t.Run(true), list[i])
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable:
			return err
		case err != nil:
			res = fleet.CheckResult{Command: list[i].Command, Status: fleet.CheckFailed, Reason: "it could not be run: " + fleet.PublicMessage(err), StartedAt: started, EndedAt: w.now()}
		}
		bound(&res)
		w.cfg.Fault(FaultCheckAfter)
		known.Results = append(known.Results, res)
		if err := w.noteCheck(ctx, t, known, of+" "+endText(res)); err != nil {
			return err
		}
	}
	return nil
}

// noteCheck records an event about the task's checks and, unless it is nil, what is known of them.
func (w *worker) noteCheck(ctx context.Context, t *fleet.Task, known *fleet.TaskChecks, text string) error {
	return w.store.Update(ctx, func(tx fleet.Tx) error {
		if now, err := tx.Task(t.ID); err != nil || now == nil || now.Try != t.Try {
			return errors.Join(err, errFollowed)
		}
		if known != nil {
			if err := tx.PutChecks(t.ID, known); err != nil {
				return err
			}
		}
		return tx.Append(t.Event(fleet.EventTaskCheck, w.now(), text))
	})
}

// checked deals with the end of the checks of the task's run.
func (w *worker) checked(ctx context.Context, a *fleet.Agent, t *fleet.Task, f *follower) error {
	w.progress.saw(fleet.Output{}, w.now())
	if f.err != nil {
		w.log.WarnContext(ctx, "the checks of a task are run again", slog.String("task", t.ID), slog.Any("error", f.err))
		w.retryLater(t)
		return nil
	}
	known, err := w.checks(ctx, t)
	if err != nil {
		return err
	}
	o := f.outcome
	if n := len(known.Results); n > 0 { // the task ends with its checks, not with its run
		o.EndedAt = known.Results[n-1].EndedAt
	}
	failed := failedChecks(known.Results)
	switch {
	case failed == 0:
		return w.finish(ctx, t.ID, o)
	case !t.StopAsked.IsZero():
		o.Status = fleet.TaskStopped
		return w.finish(ctx, t.ID, o)
	case t.Try < retries(*f.checks) && repairable(known):
		return w.tryAgain(ctx, t, o)
	}
	o.Status, o.Reason, o.ChecksFailed = fleet.TaskFailed, failureReason(known, len(f.checks.Commands)), true
	return w.finish(ctx, t.ID, o)
}

// tryAgain records that the agent is to try again: its next run is dispatched after that.
func (w *worker) tryAgain(ctx context.Context, t *fleet.Task, o fleet.Outcome) error {
	err := w.changeTask(ctx, t.ID, func(tx fleet.Tx, now *fleet.Task) error {
		if now.Try != t.Try {
			return nil
		}
		a, err := tx.Agent(t.AgentUID)
		if err != nil {
			return err
		}
		if a != nil && o.Conversation && !a.Conversed { // its next try continues the conversation
			a.Conversed = true
			if err := tx.UpdateAgent(a); err != nil {
				return err
			}
		}
		now.Try, now.Dispatched, now.Cursor = t.Try+1, time.Time{}, ""
		now.AddUsage(o)
		return nil
	})
	if err == nil {
		w.failures = failures{}
		w.cfg.Fault(FaultRetryRecorded)
	}
	return err
}

// feedback is what the agent is told when it tries again; empty when it does not.
func (w *worker) feedback(ctx context.Context, t *fleet.Task) (string, error) {
	if t.Try == 0 {
		return "", nil
	}
	known, err := w.checks(ctx, t)
	if err != nil || known == nil {
		return "", err
	}
	return feedbackText(known), nil
}

// bound bounds what a runner says of a check, which may come from a machine that is not to be trusted.
func bound(r *fleet.CheckResult) {
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

// endText says how the check ended, for the event log.
func endText(r fleet.CheckResult) string {
	if r.Status == fleet.CheckPassed {
		return fmt.Sprintf("passed: %s", r.Command)
	}
	return fmt.Sprintf("failed (%s): %s", resultText(r), r.Command)
}

// repairable says whether the agent can do something about the checks that failed: one of them could be run.
func repairable(c *fleet.TaskChecks) bool {
	for _, r := range c.Results {
		if r.Status == fleet.CheckTimedOut || r.Status == fleet.CheckFailed && r.ExitCode != nil {
			return true
		}
	}
	return false
}

// failureReason is why the task failed.
func failureReason(c *fleet.TaskChecks, total int) string {
	var texts []string
	for _, r := range c.Results {
		if r.Status != fleet.CheckPassed {
			texts = append(texts, fmt.Sprintf("%s (%s)", fleet.Shorten(r.Command, fleet.MaxTitle), resultText(r)))
		}
	}
	return fleet.Shorten(fmt.Sprintf("%d of %d checks failed: %s", len(texts), total, strings.Join(texts, ", ")), fleet.MaxRowSummary)
}

// feedbackText tells the agent what the checks found.
func feedbackText(c *fleet.TaskChecks) string {
	var b strings.Builder
	b.WriteString("You said that the task is done. These checks of your work failed. Correct what they found, and finish the task; they are run again after that.\n")
	for _, r := range c.Results {
		if r.Status == fleet.CheckPassed {
			continue
		}
		fmt.Fprintf(&b, "\n$ %s\n", r.Command)
		if r.Truncated {
			b.WriteString("[...]\n")
		}
		b.WriteString(r.Output)
		if !strings.HasSuffix(r.Output, "\n") && r.Output != "" {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "[%s]\n", resultText(r))
	}
	return b.String()
}
