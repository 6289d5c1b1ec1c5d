package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"fleet/internal/fleet"
)

// changeQueuedLanding changes the landing of the work, and sets w.Landing to the changed one. It does nothing if the work is no longer
// in the queue with the same commit. change returns the text of the event, or "" if nothing changes.
func (s *Service) changeQueuedLanding(ctx context.Context, w *LandingView, change func(fleet.Tx, *fleet.Landing) (string, error)) error {
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

// changeQueuedLandings works like changeQueuedLanding, for several landings, each in its own transaction.
func (s *Service) changeQueuedLandings(ctx context.Context, work []*LandingView, change func(*fleet.Landing) (text string)) error {
	for _, w := range work {
		if err := s.changeQueuedLanding(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) { return change(l), nil }); err != nil {
			return err
		}
	}
	return nil
}

// recordLanded records that the queued work has landed with the commit. results are those of the checks.
func (s *Service) recordLanded(ctx context.Context, w *LandingView, commit string, results []fleet.CheckResult) error {
	return s.changeQueuedLandings(ctx, []*LandingView{w}, func(l *fleet.Landing) string {
		l.State, l.Commit, l.Candidate, l.Checks, l.Problem, l.EvidenceAt = fleet.LandingLanded, commit, "", results, "", s.now()
		return fmt.Sprintf("landed in %s with the commit %s", l.Request.Into, fleet.ShortCommit(commit))
	})
}

// refuse takes the work out of the queue, because it cannot land for the reason why. People must review it again.
func (s *Service) refuse(ctx context.Context, why error, work ...*LandingView) error {
	return s.changeQueuedLandings(ctx, work, func(l *fleet.Landing) string {
		l.State, l.Request, l.Candidate, l.Problem = fleet.LandingReview, nil, "", fleet.PublicMessage(why)
		return "does not land: " + l.Problem
	})
}

// sendBackConflict takes work out of the queue because it conflicts with the branch. See sendBack.
func (s *Service) sendBackConflict(ctx context.Context, b fleet.Branch, w *LandingView, conflicts []fleet.Conflict) error {
	return s.sendBack(ctx, w, func(title string) string { return conflictTask(title, b, conflicts) }, func(l *fleet.Landing) {
		l.State, l.Conflicts, l.Problem = fleet.LandingConflict, conflicts, conflictText(b.Name, conflicts)
	})
}

// sendBackChecks takes work out of the queue because it does not pass the checks on top of the branch. See sendBack.
func (s *Service) sendBackChecks(ctx context.Context, b fleet.Branch, w *LandingView, results []fleet.CheckResult) error {
	last := results[len(results)-1]
	return s.sendBack(ctx, w, func(title string) string { return checksTask(title, b, last) }, func(l *fleet.Landing) {
		l.State, l.Checks, l.Problem = fleet.LandingChangesRequested, results, fmt.Sprintf("on top of %s, the check %q %s", b.Name, fleet.Shorten(last.Command, 80), checkEnding(last))
	})
}

// sendBack takes work out of the queue with change, which sets the new state and the problem. If the request to land says so, sendBack
// gives the agent the task to fix the work, at most fleet.MaxFixes times in a row.
func (s *Service) sendBack(ctx context.Context, w *LandingView, task func(title string) string, change func(*fleet.Landing)) error {
	return s.changeQueuedLanding(ctx, w, func(tx fleet.Tx, l *fleet.Landing) (string, error) {
		change(l)
		text := "does not land: " + l.Problem
		if !l.Request.Fix {
			return text, nil
		}
		fixes, err := fixesInARow(tx, l)
		switch {
		case err != nil:
			return "", err
		case fixes >= fleet.MaxFixes:
			l.Problem += fmt.Sprintf(", although its agent has tried %d times to mend it", fleet.MaxFixes)
			return text, nil
		}
		title, err := workTitle(tx, w.Task, l)
		if err != nil {
			return "", err
		}
		p, err := withLastGroupsIn(tx, l.Request.Principal(l.Request.By))
		if err != nil {
			return "", err
		}
		next, err := s.continueWork(fleet.WithPrincipal(ctx, p), tx, p, w.Task, l, task(title))
		var refusal *fleet.Error
		switch {
		case err == nil:
			return fmt.Sprintf("%s; task %s goes on with it", text, next.ID), nil
		case errors.As(err, &refusal) && refusal.Reason != fleet.ReasonInternal: // then people decide
			l.Problem += "; its agent gets no task to mend it: " + refusal.Message
			return text, nil
		}
		return "", err
	})
}

// fixesInARow returns how many tasks have tried to fix the work since people last requested changes to it.
func fixesInARow(tx fleet.ReadTx, l *fleet.Landing) (n int, err error) {
	for _, id := range slices.Backward(l.EarlierTasks) {
		reviews, err := tx.Reviews(id)
		if err != nil || slices.ContainsFunc(reviews, func(r *fleet.Review) bool { return r.Verdict == fleet.VerdictChanges }) {
			return n, err
		}
		n++
	}
	return n, nil
}
