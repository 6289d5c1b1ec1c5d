package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// Trains returns the trains with work that waits, of the projects whose repositories are here.
func (s *Service) Trains(ctx context.Context) (trains []fleet.Train, err error) {
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		queued, err := tx.Landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued}})
		trains = nil
		for _, l := range queued {
			t := trainOf(l)
			if s.places.Configured(l.Place) != nil && !slices.Contains(trains, t) {
				trains = append(trains, t)
			}
		}
		return err
	})
	return trains, err
}

// RunTrain lands the work that waits in the project, until nothing is left that can land now. It returns when it should be called again
// although nothing happens; zero if it need not. Only one caller in the fleet may call it at a time for a train.
func (s *Service) RunTrain(ctx context.Context, t fleet.Train) (again time.Time, err error) {
	repo, err := s.repository(t.Place, t.Project)
	if err != nil {
		return time.Time{}, s.refuseAll(ctx, t, err)
	}
	stuck := map[string]bool{} // branches into which nothing can land now
	for ctx.Err() == nil {
		works, err := s.nextWorks(ctx, t, stuck)
		if err != nil {
			return time.Time{}, err
		}
		if len(works) == 0 {
			break
		}
		switch err = s.landBatch(ctx, repo, works); {
		case err == nil || fleet.ReasonOf(err) == fleet.ReasonBranchMoved: // then the next try begins with the new commit
		case fleet.ReasonOf(err) == fleet.ReasonInternal || ctx.Err() != nil:
			return time.Time{}, err
		default:
			stuck[works[0].Into()] = true
			if err := s.recordDelay(ctx, works, err); err != nil {
				return time.Time{}, err
			}
		}
	}
	if len(stuck) == 0 {
		s.stuck.Delete(t)
		return time.Time{}, ctx.Err()
	}
	pause := trainRetry
	if last, ok := s.stuck.Load(t); ok {
		pause = min(2*last.(time.Duration), maxTrainRetry) //nolint:forcetypeassert // only durations are stored
	}
	s.stuck.Store(t, pause)
	return s.now().Add(pause), ctx.Err()
}

// refuseAll takes all work of the train out of the queue, because its project is gone or has no repository.
func (s *Service) refuseAll(ctx context.Context, t fleet.Train, why error) error {
	for {
		works, err := s.nextWorks(ctx, t, nil)
		if err != nil || len(works) == 0 {
			return err
		}
		if err := s.refuse(ctx, why, works...); err != nil {
			return err
		}
	}
}

// trainRetry is after what time a train goes on that could not move its branch; each further time is twice as long, up to maxTrainRetry.
const trainRetry, maxTrainRetry = 10 * time.Second, time.Minute

// nextWorks returns the work that lands next together, in the order of the orders, in none of the branches that are stuck.
func (s *Service) nextWorks(ctx context.Context, of fleet.Train, stuck map[string]bool) (works []*LandingView, err error) {
	var failed []*LandingView
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		queued, err := tx.Landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued}})
		if err != nil {
			return err
		}
		works, failed = nil, nil
		slices.SortFunc(queued, func(a, b *fleet.Landing) int {
			return cmp.Or(a.Order.At.Compare(b.Order.At), strings.Compare(a.TaskID, b.TaskID))
		})
		for _, l := range queued {
			if l.Place != of.Place || l.Project != of.Project || stuck[l.Into()] {
				continue
			}
			t, err := tx.Task(l.TaskID)
			switch {
			case err != nil:
				return err
			case t == nil || t.Active():
				continue
			case t.Status != fleet.TaskCompleted && len(l.Earlier) > 0: // nobody has looked at what its agent made of the work
				failed = append(failed, &LandingView{Landing: l, Task: t})
				continue
			}
			if len(works) > 0 && (l.Order.Into != works[0].Order.Into || len(works) >= works[0].Order.Batch) {
				break
			}
			works = append(works, &LandingView{Landing: l, Task: t})
		}
		return nil
	})
	for _, w := range failed {
		err = errors.Join(err, s.changeEach(ctx, []*LandingView{w}, func(l *fleet.Landing) string {
			l.State, l.Order, l.Problem = fleet.LandingChanges, nil, "the task that went on with the work "+w.Task.Failure()
			return "does not land: " + l.Problem
		}))
	}
	return works, err
}

// landBatch lands the works together, or fewer of them.
func (s *Service) landBatch(ctx context.Context, repo fleet.Repository, works []*LandingView) error {
	b, err := repo.Branch(ctx, works[0].Order.Into)
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBranchNotFound, fleet.ReasonProjectNotFound, fleet.ReasonRemoteNotFound, fleet.ReasonUnimplemented: // waiting changes nothing
		return s.refuse(ctx, err, works...)
	}
	if err != nil {
		return err
	}
	unnamed := slices.DeleteFunc(slices.Clone(works), func(w *LandingView) bool { return w.Order.Into != "" })
	if err := s.changeEach(ctx, unnamed, func(l *fleet.Landing) string { // another server has written the order, which does not know the repository
		l.Order.Into = b.Name
		return "lands in " + b.Name
	}); err != nil {
		return err
	}
	if recovered, err := s.recoverWorks(ctx, repo, b, works); err != nil || recovered {
		return err
	}
	batch, err := s.combineAll(ctx, repo, b, works)
	if err != nil || len(batch) == 0 {
		return err
	}
	results, passed, err := s.checkCommit(ctx, repo, batch[0].LandingView, batch[len(batch)-1].commit)
	switch {
	case err != nil:
		return err
	case !passed && len(batch) > 1: // halves, until the one is found that does not pass
		half := works[:0:0]
		for _, c := range batch[:len(batch)/2] {
			half = append(half, c.LandingView)
		}
		return s.landBatch(ctx, repo, half)
	case !passed:
		return s.sendBackChecks(ctx, b, batch[0].LandingView, results)
	}
	return s.moveBranch(ctx, repo, b, batch, results)
}

// recoverWorks deals with works that a killed server was about to land. done is true if there were any.
func (s *Service) recoverWorks(ctx context.Context, repo fleet.Repository, b fleet.Branch, works []*LandingView) (done bool, err error) {
	for _, w := range works {
		if w.Candidate == "" {
			continue
		}
		done = true
		moved, err := repo.Contains(ctx, b.Commit, w.Candidate)
		if err != nil {
			return true, err
		}
		if moved {
			err = s.recordLanded(ctx, w, w.Candidate, w.Checks)
		} else {
			err = s.changeEach(ctx, []*LandingView{w}, func(l *fleet.Landing) string {
				l.Candidate = ""
				return "lands again, because the server was interrupted"
			})
		}
		if err != nil {
			return true, err
		}
	}
	return done, nil
}

// moveBranch moves the branch to the last commit of the batch.
func (s *Service) moveBranch(ctx context.Context, repo fleet.Repository, b fleet.Branch, batch []combinedWork, results []fleet.CheckResult) error {
	var ready []*LandingView
	for _, c := range batch {
		still := false
		if err := s.changeQueued(ctx, c.LandingView, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
			still = true
			l.Candidate, l.Checks, l.Problem = c.commit, results, ""
			return "is landing", nil
		}); err != nil {
			return err
		}
		if !still { // somebody has taken it out of the queue
			break
		}
		ready = append(ready, c.LandingView)
	}
	if len(ready) < len(batch) { // what was checked has work that must not land
		return s.withdraw(ctx, ready, fleet.Errorf(fleet.ReasonBranchMoved, "other work was taken out of the queue"))
	}
	s.cfg.Fault(FaultLandingRecorded)
	if err := repo.Move(ctx, b, batch[len(batch)-1].commit); err != nil {
		return s.withdraw(ctx, ready, err)
	}
	s.cfg.Fault(FaultLandingMoved)
	for _, w := range ready {
		if err := s.recordLanded(ctx, w, w.Candidate, results); err != nil {
			return err
		}
	}
	return nil
}

// These are the points at which tests interrupt a landing.
const (
	FaultLandingRecorded = "landing.recorded" // the candidates are recorded, and the branch has not moved
	FaultLandingMoved    = "landing.moved"    // the branch has moved
)

// withdraw takes the candidates back, because the branch has not moved. It returns why, unless that fails. If it is not certain that the
// branch has not moved, the next try finds out.
func (s *Service) withdraw(ctx context.Context, works []*LandingView, why error) error {
	switch fleet.ReasonOf(why) {
	case fleet.ReasonBranchMoved, fleet.ReasonBranchCheckedOut:
	case fleet.ReasonPushRefused: // waiting changes nothing
		return s.refuse(ctx, why, works...)
	default:
		return why
	}
	if err := s.changeEach(ctx, works, func(l *fleet.Landing) string {
		l.Candidate = ""
		return "waits: " + fleet.PublicMessage(why)
	}); err != nil {
		return err
	}
	return why
}

// recordDelay records why the works cannot land now.
func (s *Service) recordDelay(ctx context.Context, works []*LandingView, why error) error {
	s.log.WarnContext(ctx, "work cannot land now, retrying", slog.String("project", works[0].Project), slog.Any("error", why))
	return s.changeEach(ctx, works, func(l *fleet.Landing) string {
		text := fleet.PublicMessage(why)
		if l.Problem == text {
			return ""
		}
		l.Problem = text
		return "waits: " + text
	})
}
