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

// Trains returns the trains that have waiting work and whose repositories this server has. Work whose task has not ended cannot land yet,
// so it does not count.
func (s *Service) Trains(ctx context.Context) ([]fleet.Train, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (trains []fleet.Train, err error) {
		queued, err := tx.Landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued}})
		for _, l := range queued {
			train := trainOf(l)
			if s.places.Configured(l.Place) == nil || slices.Contains(trains, train) {
				continue
			}
			t, err := tx.Task(l.TaskID)
			if err != nil {
				return nil, err
			}
			if t != nil && !t.Active() {
				trains = append(trains, train)
			}
		}
		return trains, err
	})
}

// RunTrain lands the work that waits in the train, until nothing is left that can land now. It returns the time at which it should be
// called again even if nothing happens; zero if that is not necessary. For each train, only one caller in the fleet may call it at a time.
func (s *Service) RunTrain(ctx context.Context, t fleet.Train) (next time.Time, err error) {
	repo, err := s.repository(t.Place, t.Project)
	if err != nil {
		return time.Time{}, s.refuseAll(ctx, t, err)
	}
	blocked := map[string]bool{} // branches into which nothing can land now
	for ctx.Err() == nil {
		work, err := s.prepareBatch(ctx, t, blocked)
		if err != nil {
			return time.Time{}, err
		}
		if len(work) == 0 {
			break
		}
		switch err = s.landBatch(ctx, repo, work); {
		case err == nil || fleet.ReasonOf(err) == fleet.ReasonBranchMoved: // the next round begins with the branch's new commit
		case fleet.ReasonOf(err) == fleet.ReasonInternal || ctx.Err() != nil:
			return time.Time{}, err
		default:
			blocked[work[0].Into()] = true
			if err := s.recordDelay(ctx, work, err); err != nil {
				return time.Time{}, err
			}
		}
	}
	if len(blocked) == 0 {
		s.trainBackoffs.Delete(t)
		return time.Time{}, ctx.Err()
	}
	backoff := trainBackoff
	if last, ok := s.trainBackoffs.Load(t); ok {
		backoff = min(2*last.(time.Duration), maxTrainBackoff) //nolint:forcetypeassert // only durations are stored
	}
	s.trainBackoffs.Store(t, backoff)
	return s.now().Add(backoff), ctx.Err()
}

// refuseAll takes all work of the train out of the queue, because its project is gone or has no repository.
func (s *Service) refuseAll(ctx context.Context, t fleet.Train, why error) error {
	for {
		work, err := s.prepareBatch(ctx, t, nil)
		if err != nil || len(work) == 0 {
			return err
		}
		if err := s.refuse(ctx, why, work...); err != nil {
			return err
		}
	}
}

// trainBackoff is how long a train waits whose work could not land now. The wait doubles with each failure, up to maxTrainBackoff.
const trainBackoff, maxTrainBackoff = 10 * time.Second, time.Minute

// prepareBatch returns the work that lands together next, in the order of the requests. It leaves out work for the blocked branches and
// work whose task has not ended. It takes work out of the queue if the task that went on with it did not complete.
func (s *Service) prepareBatch(ctx context.Context, train fleet.Train, blocked map[string]bool) (work []*LandingView, err error) {
	var failed []*LandingView
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		queued, err := tx.Landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued}})
		if err != nil {
			return err
		}
		work, failed = nil, nil
		slices.SortFunc(queued, func(a, b *fleet.Landing) int {
			return cmp.Or(a.Request.At.Compare(b.Request.At), strings.Compare(a.TaskID, b.TaskID))
		})
		for _, l := range queued {
			if l.Place != train.Place || l.Project != train.Project || blocked[l.Into()] {
				continue
			}
			t, err := tx.Task(l.TaskID)
			switch {
			case err != nil:
				return err
			case t == nil || t.Active():
				continue
			case t.Status != fleet.TaskCompleted && len(l.EarlierTasks) > 0: // nobody has looked at what the agent changed in this task
				failed = append(failed, &LandingView{Landing: l, Task: t})
				continue
			}
			if len(work) > 0 && (l.Request.Into != work[0].Request.Into || len(work) >= work[0].Request.Batch) {
				break
			}
			work = append(work, &LandingView{Landing: l, Task: t})
		}
		return nil
	})
	for _, w := range failed {
		err = errors.Join(err, s.changeQueuedLandings(ctx, []*LandingView{w}, func(l *fleet.Landing) string {
			l.State, l.Request, l.Problem = fleet.LandingChangesRequested, nil, "the task that went on with the work "+w.Task.Failure()
			return "does not land: " + l.Problem
		}))
	}
	return work, err
}

// landBatch lands the work together, or a part of it. Work that cannot land without changes leaves the queue. After an error, the work
// that has not landed stays in the queue.
func (s *Service) landBatch(ctx context.Context, repo fleet.Repository, work []*LandingView) error {
	b, err := repo.Branch(ctx, work[0].Request.Into)
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBranchNotFound, fleet.ReasonProjectNotFound, fleet.ReasonRemoteNotFound, fleet.ReasonUnimplemented: // waiting changes nothing
		return s.refuse(ctx, err, work...)
	}
	if err != nil {
		return err
	}
	withoutBranch := slices.DeleteFunc(slices.Clone(work), func(w *LandingView) bool { return w.Request.Into != "" })
	if err := s.changeQueuedLandings(ctx, withoutBranch, func(l *fleet.Landing) string { // the request was written by a server that does not have the repository
		l.Request.Into = b.Name
		return "lands in " + b.Name
	}); err != nil {
		return err
	}
	if recovered, err := s.recoverWork(ctx, repo, b, work); err != nil || recovered {
		return err
	}
	batch, err := s.combineAll(ctx, repo, b, work)
	if err != nil || len(batch) == 0 {
		return err
	}
	results, passed, err := s.checkCommit(ctx, repo, batch[0].LandingView, batch[len(batch)-1].commit)
	switch {
	case err != nil:
		return err
	case !passed && len(batch) > 1: // divides the batch until the work that does not pass is found
		half := work[:0:0]
		for _, c := range batch[:len(batch)/2] {
			half = append(half, c.LandingView)
		}
		return s.landBatch(ctx, repo, half)
	case !passed:
		return s.sendBackChecks(ctx, b, batch[0].LandingView, results)
	}
	return s.moveBranch(ctx, repo, b, batch, results)
}

// recoverWork finds out whether work has landed that a server was landing when it was interrupted, and records the result. recovered
// reports whether there was such work.
func (s *Service) recoverWork(ctx context.Context, repo fleet.Repository, b fleet.Branch, work []*LandingView) (recovered bool, err error) {
	for _, w := range work {
		if w.Candidate == "" {
			continue
		}
		recovered = true
		moved, err := repo.Contains(ctx, b.Commit, w.Candidate)
		if err != nil {
			return true, err
		}
		if moved {
			err = s.recordLanded(ctx, w, w.Candidate, w.Checks)
		} else {
			err = s.changeQueuedLandings(ctx, []*LandingView{w}, func(l *fleet.Landing) string {
				l.Candidate = ""
				return "lands again, because the server was interrupted"
			})
		}
		if err != nil {
			return true, err
		}
	}
	return recovered, nil
}

// moveBranch moves the branch to the last commit of the batch, and records that the work of the batch has landed. It does not move the
// branch if some of the work is no longer in the queue.
func (s *Service) moveBranch(ctx context.Context, repo fleet.Repository, b fleet.Branch, batch []combinedWork, results []fleet.CheckResult) error {
	var ready []*LandingView
	for _, c := range batch {
		isQueued := false
		if err := s.changeQueuedLanding(ctx, c.LandingView, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
			isQueued = true
			l.Candidate, l.Checks, l.Problem = c.commit, results, ""
			return "is landing", nil
		}); err != nil {
			return err
		}
		if !isQueued { // somebody has taken the work out of the queue
			break
		}
		ready = append(ready, c.LandingView)
	}
	if len(ready) < len(batch) { // the checked commit contains work that must not land
		return s.handleMoveError(ctx, ready, fleet.Errorf(fleet.ReasonBranchMoved, "other work was taken out of the queue"))
	}
	s.cfg.Fault(FaultLandingRecorded)
	if err := repo.Move(ctx, b, batch[len(batch)-1].commit); err != nil {
		return s.handleMoveError(ctx, ready, err)
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

// handleMoveError handles moveErr, the error of a move of the branch. If the branch has certainly not moved, handleMoveError removes the
// candidates and returns moveErr. If the push was refused, it takes the work out of the queue and returns nil. After any other error the
// branch may have moved: handleMoveError only returns the error, and recoverWork finds out in the next round.
func (s *Service) handleMoveError(ctx context.Context, work []*LandingView, moveErr error) error {
	switch fleet.ReasonOf(moveErr) {
	case fleet.ReasonBranchMoved, fleet.ReasonBranchCheckedOut:
	case fleet.ReasonPushRefused: // waiting changes nothing
		return s.refuse(ctx, moveErr, work...)
	default:
		return moveErr
	}
	if err := s.changeQueuedLandings(ctx, work, func(l *fleet.Landing) string {
		l.Candidate = ""
		return "waits: " + fleet.PublicMessage(moveErr)
	}); err != nil {
		return err
	}
	return moveErr
}

// recordDelay logs why the work cannot land now, and records it if the reason is a new one.
func (s *Service) recordDelay(ctx context.Context, work []*LandingView, why error) error {
	s.log.WarnContext(ctx, "work cannot land now, retrying", slog.String("project", work[0].Project), slog.Any("error", why))
	return s.changeQueuedLandings(ctx, work, func(l *fleet.Landing) string {
		text := fleet.PublicMessage(why)
		if l.Problem == text {
			return ""
		}
		l.Problem = text
		return "waits: " + text
	})
}
