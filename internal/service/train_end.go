package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"fleet/internal/fleet"
)

// changeQueued changes the landing of the work if it is still in the queue. change returns the text of the event, or "" if nothing changes.
func (s *Service) changeQueued(ctx context.Context, w *Landed, change func(fleet.Tx, *fleet.Landing) (string, error)) error {
	return s.store.Update(ctx, func(tx fleet.Tx) error {
		l, err := landingOf(tx, w.Task.ID)
		if err != nil || l == nil || l.State != fleet.LandingQueued || l.Head != w.Head {
			return err
		}
		text, err := change(tx, l)
		if err != nil || text == "" {
			return err
		}
		w.Landing = l
		return s.putLanding(tx, w.Task, l, text)
	})
}

// land records that the branch has the work with the commit.
func (s *Service) land(ctx context.Context, w *Landed, commit string, results []fleet.CheckResult) error {
	return s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
		l.State, l.Commit, l.Candidate, l.Checks, l.Problem, l.EvidenceAt = fleet.LandingLanded, commit, "", results, "", s.now()
		return fmt.Sprintf("landed in %s with the commit %s", l.Order.Into, fleet.ShortCommit(commit)), nil
	})
}

// refuse takes the work out of the queue.
func (s *Service) refuse(ctx context.Context, w *Landed, state fleet.LandingState, why string) error {
	return s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
		l.State, l.Order, l.Candidate, l.Problem = state, nil, "", why
		return "does not land: " + why, nil
	})
}

// conflict takes work out of the queue that cannot be combined with the branch.
func (s *Service) conflict(ctx context.Context, b fleet.Branch, w *Landed, conflicts []fleet.Conflict) error {
	return s.reject(ctx, w, func(title string) string { return conflictTask(title, b, conflicts) }, func(l *fleet.Landing) {
		l.State, l.Conflicts, l.Problem = fleet.LandingConflict, conflicts, conflictText(b.Name, conflicts)
	})
}

// failChecks takes work out of the queue that does not pass the checks on top of the branch.
func (s *Service) failChecks(ctx context.Context, b fleet.Branch, w *Landed, results []fleet.CheckResult) error {
	last := results[len(results)-1]
	return s.reject(ctx, w, func(title string) string { return checksTask(title, b, last) }, func(l *fleet.Landing) {
		l.State, l.Checks, l.Problem = fleet.LandingChanges, results, fmt.Sprintf("on top of %s, the check %q %s", b.Name, fleet.Shorten(last.Command, 80), checkWords(last))
	})
}

// reject takes work out of the queue and gives its agent the task to mend it, if the order says so.
func (s *Service) reject(ctx context.Context, w *Landed, task func(title string) string, change func(*fleet.Landing)) error {
	return s.changeQueued(ctx, w, func(tx fleet.Tx, l *fleet.Landing) (string, error) {
		change(l)
		text := "does not land: " + l.Problem
		switch {
		case !l.Order.Fix:
			return text, nil
		case len(l.Earlier) >= fleet.MaxFixes:
			l.Problem += fmt.Sprintf(", although its agent has tried %d times to mend it", fleet.MaxFixes)
			return text, nil
		}
		title, err := workTitle(tx, w.Task, l)
		if err != nil {
			return "", err
		}
		p := l.Order.Of(l.Order.By)
		next, err := s.continueWork(fleet.WithPrincipal(ctx, p), tx, p, w.Task, l, task(title))
		var refused *fleet.Error
		switch {
		case err == nil:
			return fmt.Sprintf("%s; task %s goes on with it", text, next.ID), nil
		case errors.As(err, &refused) && refused.Reason != fleet.ReasonInternal: // then people decide
			l.Problem += "; its agent gets no task to mend it: " + refused.Message
			return text, nil
		}
		return "", err
	})
}

// conflictText describes the conflicts for people.
func conflictText(branch string, conflicts []fleet.Conflict) string {
	paths := make([]string, len(conflicts))
	for i, c := range conflicts {
		paths[i] = c.Path
	}
	return fmt.Sprintf("it conflicts with %s in %s", branch, fleet.JoinNames(paths))
}

// checkWords says how the check ended, as the end of a sentence.
func checkWords(c fleet.CheckResult) string {
	switch {
	case c.ExitCode != nil:
		return fmt.Sprintf("failed with exit code %d", *c.ExitCode)
	case c.Reason != "":
		return "failed: " + c.Reason
	}
	return "failed"
}

// maxTaskOutput limits how much of a check's output a task quotes, in bytes.
const maxTaskOutput = 4 << 10

// conflictTask returns the description of the task that ends the conflicts.
func conflictTask(title string, b fleet.Branch, conflicts []fleet.Conflict) string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Resolve the conflicts of your work on %q with the branch %s, so that it can land there.\n", title, b.Name)
	fmt.Fprintf(&t, "# Bring your branch on top of the commit %s of %s (git rebase or git merge, after git fetch if you do not have it), resolve the conflicts so that both changes work, and commit.\n", fleet.ShortCommit(b.Commit), b.Name)
	for _, c := range conflicts {
		fmt.Fprintf(&t, "#\n# %s (%s)\n", c.Path, c.Kind)
		quoteLines(&t, c.Hunks)
		if t.Len() > maxConflictTask {
			t.WriteString("#\n# and more: git shows them\n")
			break
		}
	}
	return t.String()
}

// workTitle returns the title of the task that began the work.
func workTitle(tx fleet.ReadTx, t *fleet.Task, l *fleet.Landing) (string, error) {
	if len(l.Earlier) > 0 {
		first, err := tx.Task(l.Earlier[0])
		if err != nil {
			return "", err
		}
		if first != nil { // it may have been deleted
			return first.Title(), nil
		}
	}
	return t.Title(), nil
}

// maxConflictTask limits the description of a task about conflicts, in bytes.
const maxConflictTask = 32 << 10

// checksTask returns the description of the task that makes the checks pass.
func checksTask(title string, b fleet.Branch, c fleet.CheckResult) string {
	var t strings.Builder
	fmt.Fprintf(&t, "# Make a check pass that fails when your work on %q is combined with the branch %s, so that it can land there.\n", title, b.Name)
	fmt.Fprintf(&t, "# Bring your branch on top of the commit %s of %s (git rebase or git merge, after git fetch if you do not have it), make the check pass, and commit.\n#\n# The check %s\n", fleet.ShortCommit(b.Commit), b.Name, checkWords(c))
	quoteLines(&t, c.Command)
	t.WriteString("# and wrote:\n")
	output := c.Output
	if len(output) > maxTaskOutput {
		output = strings.ToValidUTF8(output[len(output)-maxTaskOutput:], "")
	}
	quoteLines(&t, output)
	return t.String()
}

// quoteLines writes the lines of the text so that neither an agent nor a shell takes them for instructions.
func quoteLines(b *strings.Builder, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString("# > " + strings.TrimRight(line, "\r") + "\n")
	}
}
