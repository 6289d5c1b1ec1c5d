package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
			t := fleet.Train{Place: l.Place, Project: l.Project}
			if s.places.Lookup(l.Place) != nil && !slices.Contains(trains, t) {
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
		cars, err := s.cars(ctx, t, stuck)
		if err != nil {
			return time.Time{}, err
		}
		if len(cars) == 0 {
			break
		}
		switch err = s.landBatch(ctx, repo, cars); {
		case err == nil || fleet.ReasonOf(err) == fleet.ReasonBranchMoved: // then the next try begins with the new commit
		case fleet.ReasonOf(err) == fleet.ReasonInternal || ctx.Err() != nil:
			return time.Time{}, err
		default:
			stuck[cars[0].Into()] = true
			if err := s.delay(ctx, cars, err); err != nil {
				return time.Time{}, err
			}
		}
	}
	if len(stuck) == 0 {
		s.stuck.Delete(t)
		return time.Time{}, ctx.Err()
	}
	pause := trainAgain
	if last, ok := s.stuck.Load(t); ok {
		pause = min(2*last.(time.Duration), maxTrainAgain) //nolint:forcetypeassert // only durations are stored
	}
	s.stuck.Store(t, pause)
	return s.now().Add(pause), ctx.Err()
}

// refuseAll takes all work of the train out of the queue, because its project is gone or has no repository.
func (s *Service) refuseAll(ctx context.Context, t fleet.Train, why error) error {
	for {
		cars, err := s.cars(ctx, t, nil)
		if err != nil || len(cars) == 0 {
			return err
		}
		for _, w := range cars {
			if err := s.refuse(ctx, w, fleet.LandingReview, fleet.PublicMessage(why)); err != nil {
				return err
			}
		}
	}
}

// trainAgain is after what time a train goes on that could not move its branch; each further time is twice as long, up to maxTrainAgain.
const trainAgain, maxTrainAgain = 10 * time.Second, time.Minute

// cars returns the work that lands next together, in the order of the orders, in none of the branches that are stuck.
func (s *Service) cars(ctx context.Context, of fleet.Train, stuck map[string]bool) (cars []*Landed, err error) {
	var failed []*Landed
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		queued, err := tx.Landings(fleet.LandingFilter{States: []fleet.LandingState{fleet.LandingQueued}})
		if err != nil {
			return err
		}
		cars, failed = nil, nil
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
				failed = append(failed, &Landed{Landing: l, Task: t})
				continue
			}
			if len(cars) > 0 && (l.Order.Into != cars[0].Order.Into || len(cars) >= cars[0].Order.Batch) {
				break
			}
			cars = append(cars, &Landed{Landing: l, Task: t})
		}
		return nil
	})
	for _, w := range failed {
		err = errors.Join(err, s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
			l.State, l.Order, l.Problem = fleet.LandingChanges, nil, "the task that went on with the work "+w.Task.Failure()
			return "does not land: " + l.Problem, nil
		}))
	}
	return cars, err
}

// landBatch lands the cars together, or fewer of them.
func (s *Service) landBatch(ctx context.Context, repo fleet.Repository, cars []*Landed) error {
	b, err := repo.Branch(ctx, cars[0].Order.Into)
	switch fleet.ReasonOf(err) {
	case fleet.ReasonBranchNotFound, fleet.ReasonProjectNotFound, fleet.ReasonRemoteNotFound, fleet.ReasonUnimplemented: // waiting changes nothing
		for _, w := range cars {
			if err := s.refuse(ctx, w, fleet.LandingReview, fleet.PublicMessage(err)); err != nil {
				return err
			}
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, w := range cars {
		if w.Order.Into == "" { // another server has written the order, which does not know the repository
			if err := s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
				l.Order.Into = b.Name
				return "lands in " + b.Name, nil
			}); err != nil {
				return err
			}
		}
	}
	if recovered, err := s.recoverCars(ctx, repo, b, cars); err != nil || recovered {
		return err
	}
	batch, err := s.couple(ctx, repo, b, cars)
	if err != nil || len(batch) == 0 {
		return err
	}
	results, passed, err := s.checkCommit(ctx, repo, batch[0].Landed, batch[len(batch)-1].commit)
	switch {
	case err != nil:
		return err
	case !passed && len(batch) > 1: // halves, until the one is found that does not pass
		half := cars[:0:0]
		for _, c := range batch[:len(batch)/2] {
			half = append(half, c.Landed)
		}
		return s.landBatch(ctx, repo, half)
	case !passed:
		return s.failChecks(ctx, b, batch[0].Landed, results)
	}
	return s.move(ctx, repo, b, batch, results)
}

// recoverCars deals with cars that a killed server was about to land. done is true if there were any.
func (s *Service) recoverCars(ctx context.Context, repo fleet.Repository, b fleet.Branch, cars []*Landed) (done bool, err error) {
	for _, w := range cars {
		if w.Candidate == "" {
			continue
		}
		done = true
		moved, err := repo.Contains(ctx, b.Commit, w.Candidate)
		if err != nil {
			return true, err
		}
		if moved {
			err = s.land(ctx, w, w.Candidate, w.Checks)
		} else {
			err = s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
				l.Candidate = ""
				return "lands again, because the server was interrupted", nil
			})
		}
		if err != nil {
			return true, err
		}
	}
	return done, nil
}

// coupled is a car with the commit that has its work and that of the cars before it.
type coupled struct {
	*Landed
	commit string
}

// couple combines the cars one after the other, as far as they can be combined.
func (s *Service) couple(ctx context.Context, repo fleet.Repository, b fleet.Branch, cars []*Landed) (batch []coupled, err error) {
	tip := b.Commit
	for _, w := range cars {
		err := s.collect(ctx, repo, w.Task)
		combined := fleet.Combined{}
		if err == nil {
			combined, err = s.combine(ctx, repo, w, tip)
		}
		switch {
		case ctx.Err() != nil || fleet.ReasonOf(err) == fleet.ReasonInternal || fleet.ReasonOf(err) == fleet.ReasonBackendUnavailable:
			return nil, err
		case err != nil:
			err = s.refuse(ctx, w, fleet.LandingReview, fleet.PublicMessage(err))
		case combined.Commit == "" && tip == b.Commit:
			err = s.conflict(ctx, b, w, combined.Conflicts)
		case combined.Commit == "": // perhaps only with the cars before it, which may not land
			return batch, nil
		case combined.Commit == b.Commit:
			err = s.land(ctx, w, b.Commit, nil)
		default: // the same commit as before if the cars before it have all of it
			tip = combined.Commit
			batch = append(batch, coupled{w, tip})
		}
		if err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// combine combines the work with a commit.
func (s *Service) combine(ctx context.Context, repo fleet.Repository, w *Landed, onto string) (fleet.Combined, error) {
	c := s.combination(w.Task, w.Landing, onto)
	if c.Strategy == fleet.Merge {
		landed, err := s.landedBefore(ctx, w)
		if err != nil {
			return fleet.Combined{}, err
		}
		if !landed {
			c.Since = "" // then all that the agent has done comes with it
		}
	}
	return repo.Combine(ctx, c)
}

// maxBefore is among how many of the agent's tasks landedBefore looks.
const maxBefore = 50

// landedBefore reports whether the work with which this one begins has landed.
func (s *Service) landedBefore(ctx context.Context, w *Landed) (landed bool, err error) {
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		tasks, _, err := tx.Tasks(w.Task.AgentUID, maxBefore, 0)
		if err != nil {
			return err
		}
		work, err := workOf(tx, tasks)
		for _, v := range work {
			landed = landed || v.Head == w.Base && v.State == fleet.LandingLanded
		}
		return err
	})
	return landed, err
}

// combination says how the work comes on top of a commit. The same work on the same commit always makes the same commit, so that a
// check is not executed again after the server was killed.
func (s *Service) combination(t *fleet.Task, l *fleet.Landing, onto string) fleet.Combination {
	message := l.Order.Message
	if message == "" {
		message = t.Title()
		if summary := strings.TrimSpace(t.Summary); summary != "" && summary != message {
			message += "\n\n" + summary
		}
	}
	message = strings.TrimRight(message, "\n") + fmt.Sprintf("\n\nFleet-Task: %s\nFleet-Agent: %s\n", t.ID, t.AgentName)
	return fleet.Combination{
		Contribution: contribution(l), Onto: onto, Strategy: l.Order.Strategy, Message: message,
		Author: fleet.Person{Name: t.AgentName}, Landed: fleet.Person{Name: l.Order.By}, At: l.Order.At.Truncate(time.Second),
	}
}

// checkCommit runs the checks of the project on the commit. The results of a batch are those of all its cars.
func (s *Service) checkCommit(ctx context.Context, repo fleet.Repository, w *Landed, commit string) (results []fleet.CheckResult, passed bool, err error) {
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

// projectChecks returns the checks of the project.
func (s *Service) projectChecks(ctx context.Context, place, project string) (fleet.Checks, error) {
	all, err := s.places.Lookup(place).Catalog.Projects(ctx)
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

// move moves the branch to the last commit of the batch.
func (s *Service) move(ctx context.Context, repo fleet.Repository, b fleet.Branch, batch []coupled, results []fleet.CheckResult) error {
	var ready []*Landed
	for _, c := range batch {
		still := false
		if err := s.changeQueued(ctx, c.Landed, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
			still = true
			l.Candidate, l.Checks, l.Problem = c.commit, results, ""
			return "is landing", nil
		}); err != nil {
			return err
		}
		if !still { // somebody has taken it out of the queue
			break
		}
		ready = append(ready, c.Landed)
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
		if err := s.land(ctx, w, w.Candidate, results); err != nil {
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
func (s *Service) withdraw(ctx context.Context, cars []*Landed, why error) error {
	switch fleet.ReasonOf(why) {
	case fleet.ReasonBranchMoved, fleet.ReasonBranchCheckedOut:
	case fleet.ReasonPushRefused: // waiting changes nothing
		for _, w := range cars {
			if err := s.refuse(ctx, w, fleet.LandingReview, fleet.PublicMessage(why)); err != nil {
				return err
			}
		}
		return nil
	default:
		return why
	}
	for _, w := range cars {
		if err := s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
			l.Candidate = ""
			return "waits: " + fleet.PublicMessage(why), nil
		}); err != nil {
			return err
		}
	}
	return why
}

// delay says of the cars why they cannot land now.
func (s *Service) delay(ctx context.Context, cars []*Landed, why error) error {
	s.log.WarnContext(ctx, "work cannot land now, retrying", slog.String("project", cars[0].Project), slog.Any("error", why))
	for _, w := range cars {
		if err := s.changeQueued(ctx, w, func(_ fleet.Tx, l *fleet.Landing) (string, error) {
			text := fleet.PublicMessage(why)
			if l.Problem == text {
				return "", nil
			}
			l.Problem = text
			return "waits: " + text, nil
		}); err != nil {
			return err
		}
	}
	return nil
}
