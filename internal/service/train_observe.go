package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// mergeableStates are the states of work that people may have merged into the branch themselves.
var mergeableStates = []fleet.LandingState{fleet.LandingBranch, fleet.LandingReview, fleet.LandingChangesRequested, fleet.LandingApproved, fleet.LandingConflict}

// ObserveLandings finds open work that people have merged into the branches themselves, in projects whose repositories this
// server has, and records that it has landed. It skips a project if neither its branch nor its open work has changed
// since the last call. It also skips places whose workspaces it would keep awake.
func (s *Service) ObserveLandings(ctx context.Context) error {
	all, err := view(ctx, s.store, func(tx fleet.ReadTx) ([]*fleet.Landing, error) {
		return tx.Landings(fleet.LandingFilter{States: mergeableStates})
	})
	if err != nil {
		return err
	}
	open := map[fleet.Train][]*fleet.Landing{}
	for _, l := range all {
		open[trainOf(l)] = append(open[trainOf(l)], l)
	}
	var errs []error
	for t, work := range open {
		if p := s.places.Configured(t.Place); p == nil || p.Traits().CallsKeepAwake {
			continue
		}
		if err := s.observeTrain(ctx, t, work); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.Key(), err))
		}
	}
	return errors.Join(errs...)
}

// observeTimeout limits the work of ObserveLandings for one project, whose repository may not answer.
const observeTimeout = time.Minute

// observeTrain does the work of ObserveLandings for one project. It compares the work with the branch at which the project's work
// begins.
func (s *Service) observeTrain(ctx context.Context, t fleet.Train, work []*fleet.Landing) error {
	repo, err := s.repository(t.Place, t.Project)
	if err != nil {
		return nil //nolint:nilerr // nothing lands there
	}
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	b, err := repo.Branch(ctx, "")
	switch {
	case fleet.ReasonOf(err) == fleet.ReasonBranchNotFound:
		return nil
	case err != nil:
		return err
	}
	heads := []string{b.Commit}
	for _, l := range work {
		heads = append(heads, l.Head)
	}
	slices.Sort(heads[1:])
	observed := strings.Join(heads, " ")
	if last, _ := s.lastObserved.Load(t); last == observed {
		return nil
	}
	for _, l := range work {
		contains, err := repo.Contains(ctx, b.Commit, l.Head)
		if err != nil {
			return err
		}
		if !contains {
			continue
		}
		if err := s.store.Update(ctx, func(tx fleet.Tx) error {
			task, err := tx.Task(l.TaskID)
			if err != nil || task == nil {
				return err
			}
			current, err := landingOf(tx, l.TaskID)
			if err != nil || current == nil || current.State != l.State || current.Head != l.Head {
				return err
			}
			current.State, current.Commit, current.Problem, current.EvidenceAt = fleet.LandingLanded, l.Head, "", s.now()
			if current.Request == nil {
				current.Request = &fleet.LandingRequest{At: s.now()}
			}
			current.Request.Into = b.Name
			return s.putLanding(tx, task, current, fmt.Sprintf("found in %s with the commit %s", b.Name, fleet.ShortCommit(l.Head)))
		}); err != nil {
			return err
		}
	}
	s.lastObserved.Store(t, observed)
	return nil
}
