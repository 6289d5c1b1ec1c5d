package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// ended deals with a run that has ended: its checks are run before its task ends, if it has any.
func (w *worker) ended(ctx context.Context, a *Agent, t *Task, o Outcome) error {
	if o.Status != TaskCompleted || a.contracted() {
		return w.finish(ctx, t.ID, o)
	}
	checks, err := w.checksOf(ctx, a, t)
	if err != nil {
		w.log.WarnContext(ctx, "the checks of a task are not known and are asked for again", slog.String("task", t.ID), slog.Any("error", err))
		w.troubled(t)
		return nil
	}
	switch {
	case len(checks.Commands) == 0:
		return w.finish(ctx, t.ID, o)
	case !t.StopAsked.IsZero(): // nobody knows whether its work is good
		o.Status = TaskStopped
		return w.finish(ctx, t.ID, o)
	}
	w.checkRun(ctx, a, t, checks, o)
	return nil
}

// contracted says whether the agent works under a contract: what it says of its task's end is final.
func (a *Agent) contracted() bool {
	return a.Toolset == ToolsetLifecycle || a.Recipe != nil && a.Recipe.Reports
}

// checksOf returns the checks of the task: of the project and the role of its agent, and of its own.
func (w *worker) checksOf(ctx context.Context, a *Agent, t *Task) (Checks, error) {
	var checks Checks
	place, inRole := w.places.of(a), a.Role != ""
	if a.Recipe != nil && a.Recipe.Driver != "" { // it makes the agent, and may say where that works
		place, inRole = nil, false
		if a.Recipe.Place != "" {
			place = w.places.lookup(a.Recipe.Place)
		}
	}
	if place != nil && place.traits.ProjectChecks && a.Project != "" {
		project, _, err := w.places.findProject(ctx, a.Project, place)
		var role Role
		if err == nil && inRole {
			role, err = place.catalog.role(ctx, project.Name, a.Role)
		}
		if code := ReasonOf(err); err != nil && code != ReasonProjectNotFound && code != ReasonRoleNotFound {
			return Checks{}, err
		}
		checks = project.Checks.and(role.Checks)
	}
	known, err := w.checks(ctx, t.ID)
	if err != nil || known == nil {
		return checks, err
	}
	return checks.and(known.Asked), nil
}

// checks returns what is known of the task's checks; nil when nothing is.
func (r *Reconciler) checks(ctx context.Context, taskID string) (known *TaskChecks, err error) {
	err = r.store.View(ctx, func(tx ReadTx) (err error) {
		known, err = tx.Checks(taskID)
		return err
	})
	return known, err
}

// checkRun begins to run the checks of the task's run in the background, in the place of following it.
func (w *worker) checkRun(ctx context.Context, a *Agent, t *Task, checks Checks, o Outcome) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{taskID: t.ID, ctx: ctx, cancel: cancel, done: make(chan struct{}), outcome: o, checks: &checks}
	w.follow = f
	w.progress.begin(t.ID, w.now())
	w.progress.saw(Output{Open: 1}, w.now()) // a check has a time limit of its own
	agent, task := *a, *t
	go func() {
		defer close(f.done)
		defer cancel()
		f.err = w.runChecks(ctx, &agent, &task, checks)
	}()
}

// runChecks runs the checks that have no result yet, one after the other, and records how each went. After one that was
// stopped it runs no more.
func (w *worker) runChecks(ctx context.Context, a *Agent, t *Task, checks Checks) error {
	known, err := w.checks(ctx, t.ID)
	if err != nil {
		return err
	}
	if known == nil {
		known = &TaskChecks{}
	}
	if known.Try != t.Try {
		known.Try, known.Results = t.Try, nil
	}
	list := checks.list()
	for i := len(known.Results); i < len(list); i++ {
		of := fmt.Sprintf("check %d of %d", i+1, len(list))
		if i > 0 && known.Results[i-1].Status == CheckStopped {
			return nil
		}
		if err := w.noteCheck(ctx, t, nil, of+": "+list[i].Command); err != nil {
			return err
		}
		w.cfg.Fault(FaultCheckBefore)
		begun := w.now()
		res, err := w.places.of(a).Connect(*a).Check(ctx, t.run(true), list[i])
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && ReasonOf(err) == ReasonBackendUnavailable:
			return err
		case err != nil:
			res = CheckResult{Command: list[i].Command, Status: CheckFailed, Reason: "it could not be run: " + PublicMessage(err), StartedAt: begun, EndedAt: w.now()}
		}
		res.bound()
		w.cfg.Fault(FaultCheckAfter)
		known.Results = append(known.Results, res)
		if err := w.noteCheck(ctx, t, known, of+" "+res.said()); err != nil {
			return err
		}
	}
	return nil
}

// noteCheck records an event about the task's checks and, unless it is nil, what is known of them.
func (w *worker) noteCheck(ctx context.Context, t *Task, known *TaskChecks, text string) error {
	return w.store.Update(ctx, func(tx Tx) error {
		if now, err := tx.Task(t.ID); err != nil || now == nil || now.Try != t.Try {
			return errors.Join(err, errFollowed)
		}
		if known != nil {
			if err := tx.PutChecks(t.ID, known); err != nil {
				return err
			}
		}
		return tx.Append(t.event(EventTaskCheck, w.now(), text))
	})
}

// checked deals with the end of the checks of the task's run.
func (w *worker) checked(ctx context.Context, a *Agent, t *Task, f *follower) error {
	w.progress.saw(Output{}, w.now())
	if f.err != nil {
		w.log.WarnContext(ctx, "the checks of a task are run again", slog.String("task", t.ID), slog.Any("error", f.err))
		w.troubled(t)
		return nil
	}
	known, err := w.checks(ctx, t.ID)
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
		o.Status = TaskStopped
		return w.finish(ctx, t.ID, o)
	case t.Try < f.checks.retries() && known.repairable():
		return w.tryAgain(ctx, t, o)
	}
	o.Status, o.Reason, o.checksFailed = TaskFailed, known.reason(len(f.checks.Commands)), true
	return w.finish(ctx, t.ID, o)
}

// tryAgain records that the agent is to try again: its next run is dispatched after that.
func (w *worker) tryAgain(ctx context.Context, t *Task, o Outcome) error {
	err := w.changeTask(ctx, t.ID, func(tx Tx, now *Task) error {
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
		now.spend(o)
		return nil
	})
	if err == nil {
		w.trouble = trouble{}
		w.cfg.Fault(FaultRetryRecorded)
	}
	return err
}

// feedback is what the agent is told when it tries again; empty when it does not.
func (w *worker) feedback(ctx context.Context, t *Task) (string, error) {
	if t.Try == 0 {
		return "", nil
	}
	known, err := w.checks(ctx, t.ID)
	if err != nil || known == nil {
		return "", err
	}
	return known.feedback(), nil
}

// bound bounds what a runner says of a check, which may come from a machine that is not to be trusted.
func (r *CheckResult) bound() {
	r.Command, r.Reason = shorten(r.Command, MaxCheckCommand), shorten(r.Reason, MaxRowSummary)
	if cut := len(r.Output) - MaxCheckOutput; cut > 0 {
		r.Output, r.Truncated = r.Output[cut:], true
	}
	r.Output = strings.ToValidUTF8(r.Output, "")
	switch r.Status {
	case CheckPassed, CheckFailed, CheckTimedOut, CheckStopped:
	default:
		r.Status = CheckFailed
	}
}

// said says how the check ended, for the event log.
func (r CheckResult) said() string {
	if r.Status == CheckPassed {
		return fmt.Sprintf("passed: %s", r.Command)
	}
	return fmt.Sprintf("failed (%s): %s", r.words(), r.Command)
}

// repairable says whether the agent can do something about the checks that failed: one of them could be run.
func (c *TaskChecks) repairable() bool {
	for _, r := range c.Results {
		if r.Status == CheckTimedOut || r.Status == CheckFailed && r.ExitCode != nil {
			return true
		}
	}
	return false
}

// reason is why the task failed.
func (c *TaskChecks) reason(total int) string {
	var texts []string
	for _, r := range c.Results {
		if r.Status != CheckPassed {
			texts = append(texts, fmt.Sprintf("%s (%s)", shorten(r.Command, MaxTitle), r.words()))
		}
	}
	return shorten(fmt.Sprintf("%d of %d checks failed: %s", len(texts), total, strings.Join(texts, ", ")), MaxRowSummary)
}

// feedback tells the agent what the checks found.
func (c *TaskChecks) feedback() string {
	var b strings.Builder
	b.WriteString("You said that the task is done. These checks of your work failed. Correct what they found, and finish the task; they are run again after that.\n")
	for _, r := range c.Results {
		if r.Status == CheckPassed {
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
		fmt.Fprintf(&b, "[%s]\n", r.words())
	}
	return b.String()
}
