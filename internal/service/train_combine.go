package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// combinedWork is work with a commit that contains this work and the work before it.
type combinedWork struct {
	*LandingView
	commit string
}

// combineAll combines the work with the branch, one after the other, until work conflicts with the work before it. Work that cannot be
// combined with the branch, or that the branch already contains, leaves the queue.
func (s *Service) combineAll(ctx context.Context, repo fleet.Repository, b fleet.Branch, work []*LandingView) (batch []combinedWork, err error) {
	tip := b.Commit
	for _, w := range work {
		err := s.collectWork(ctx, repo, w.Task)
		combined := fleet.CombineResult{}
		if err == nil {
			combined, err = s.combine(ctx, repo, w, tip)
		}
		switch {
		case ctx.Err() != nil || fleet.ReasonOf(err) == fleet.ReasonInternal || fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable:
			return nil, err
		case err != nil:
			err = s.refuse(ctx, err, w)
		case combined.Commit == "" && tip == b.Commit:
			err = s.sendBackConflict(ctx, b, w, combined.Conflicts)
		case combined.Commit == "": // perhaps it conflicts only with earlier work of the batch, and that work may not land
			return batch, nil
		case combined.Commit == b.Commit:
			err = s.recordLanded(ctx, w, b.Commit, nil)
		default: // combined.Commit equals tip if the earlier work of the batch contains all of these changes
			tip = combined.Commit
			batch = append(batch, combinedWork{w, tip})
		}
		if err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// combine combines the work with the commit onto. The result has no Commit if they conflict.
func (s *Service) combine(ctx context.Context, repo fleet.Repository, w *LandingView, onto string) (fleet.CombineResult, error) {
	c, err := s.combination(ctx, w.Task, w.Landing, onto)
	if err != nil {
		return fleet.CombineResult{}, err
	}
	if c.Strategy == fleet.Merge {
		landed, err := s.landedBefore(ctx, w)
		if err != nil {
			return fleet.CombineResult{}, err
		}
		if !landed {
			c.Since = "" // the merge then includes everything that the agent has done
		}
	}
	return repo.Combine(ctx, c)
}

// maxEarlierTasks is how many of the agent's newest tasks landedBefore reads.
const maxEarlierTasks = 50

// landedBefore reports whether earlier work of the same agent, on which the work w is based, has landed.
func (s *Service) landedBefore(ctx context.Context, w *LandingView) (bool, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (bool, error) {
		tasks, _, err := tx.Tasks(w.Task.AgentUID, maxEarlierTasks, 0)
		if err != nil {
			return false, err
		}
		work, err := workOf(tx, tasks)
		return slices.ContainsFunc(work, func(v *LandingView) bool { return v.Head == w.Base && v.State == fleet.LandingLanded }), err
	})
}

// combination describes how the work is combined with a commit. The same work on the same commit always makes the same commit,
// so that a check is not executed again after the server was killed.
func (s *Service) combination(ctx context.Context, t *fleet.Task, l *fleet.Landing, onto string) (fleet.Combination, error) {
	message := l.Request.Message
	if message == "" {
		var err error
		if message, err = view(ctx, s.store, func(tx fleet.ReadTx) (string, error) { return workTitle(tx, t, l) }); err != nil {
			return fleet.Combination{}, err
		}
		if summary := strings.TrimSpace(t.Summary); summary != "" && summary != message {
			message += "\n\n" + summary
		}
	}
	message = strings.TrimRight(message, "\n") + fmt.Sprintf("\n\nFleet-Task: %s\nFleet-Agent: %s\n", t.ID, t.AgentName)
	return fleet.Combination{
		Contribution: contribution(l), Onto: onto, Strategy: l.Request.Strategy, Message: message,
		Author: fleet.Person{Name: t.AgentName}, Committer: fleet.Person{Name: l.Request.By}, At: l.Request.At.Truncate(time.Second),
	}, nil
}

// checkCommit runs the checks of the project of w on the commit, up to the first one that does not pass.
func (s *Service) checkCommit(ctx context.Context, repo fleet.Repository, w *LandingView, commit string) (results []fleet.CheckResult, passed bool, err error) {
	checks, err := s.projectChecks(ctx, w.Place, w.Project)
	if err != nil {
		return nil, false, err
	}
	for i, command := range checks.Commands {
		result, err := repo.Check(ctx, commit, fleet.Check{ID: fmt.Sprint("land", i+1), Command: command, Timeout: cmp.Or(checks.Timeout, fleet.DefaultCheckTimeout)})
		if err != nil {
			return nil, false, err
		}
		if results = append(results, result); result.Status != fleet.CheckPassed {
			return results, false, nil
		}
	}
	return results, true, nil
}

// projectChecks returns the checks of the project at the place. The error is PROJECT_NOT_FOUND if the project no longer exists.
func (s *Service) projectChecks(ctx context.Context, place, project string) (fleet.Checks, error) {
	all, err := s.places.Configured(place).Catalog.Projects(ctx)
	if err != nil {
		return fleet.Checks{}, err
	}
	for _, p := range all {
		if p.Name == project {
			return p.Checks, nil
		}
	}
	return fleet.Checks{}, fleet.Errorf(fleet.ReasonProjectNotFound, "the project %q no longer exists", project)
}
