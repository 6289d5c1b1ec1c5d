package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"fleet/internal/fleet"
)

// LandRequest says which work lands, and how. Either TaskIDs selects the work, or Selector and Project do.
type LandRequest struct {
	TaskIDs  []string
	Selector string
	Project  string // not with TaskIDs
	Into     string // the branch; empty means the branch at which the work of the project begins
	Strategy fleet.Strategy
	Message  string // message of the commit; only for one task
	Batch    int    // how many tasks may have their work checked together; 0 means 1
	NoFix    bool   // a conflict or failed checks do not become a task of the agent
	DryRun   bool   // only predicts the results

	RequestID string `json:"-"`
}

// MaxLandings is how many tasks one call may land.
const MaxLandings = 100

// validate returns INVALID_ARGUMENT, with the name of the wrong field.
func (r *LandRequest) validate() error {
	switch {
	case len(r.TaskIDs) == 0 && r.Selector == "" && r.Project == "":
		return fleet.InvalidField("task_ids", "nothing says what lands: give task_ids, selector or project").Next("{list_reviews} shows the work that has not landed")
	case len(r.TaskIDs) > 0 && (r.Selector != "" || r.Project != ""):
		return fleet.InvalidField("selector", "task_ids is given besides selector or project: give the one or the others")
	case len(r.TaskIDs) > MaxLandings:
		return fleet.InvalidField("task_ids", "task_ids has %d ids: give at most %d", len(r.TaskIDs), MaxLandings)
	case !slices.Contains([]fleet.Strategy{"", fleet.Squash, fleet.Rebase, fleet.Merge}, r.Strategy):
		return fleet.InvalidField("strategy", "strategy is %q: use squash, rebase or merge", fleet.Shorten(string(r.Strategy), 40))
	case r.Message != "" && len(r.TaskIDs) != 1:
		return fleet.InvalidField("message", "message is for the commit of one task: leave it out, or land the tasks one by one")
	case len(r.Message) > fleet.MaxReviewText:
		return fleet.InvalidField("message", "message has %d bytes: use at most %d", len(r.Message), fleet.MaxReviewText)
	case r.Batch < 0 || r.Batch > fleet.MaxBatch:
		return fleet.InvalidField("batch", "batch is %d: give 1 to %d", r.Batch, fleet.MaxBatch)
	}
	return nil
}

// LandTasks queues the work of tasks for the branch: each work lands when its turn comes, if it can be combined with the branch and passes
// the checks of the project. With DryRun, LandTasks queues nothing, and the results say which work can be combined.
func (s *Service) LandTasks(ctx context.Context, r LandRequest) ([]*LandingView, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.validate(); err != nil {
		return nil, err
	}
	if r.Strategy == "" {
		r.Strategy = fleet.Squash
	}
	r.Batch = max(r.Batch, 1)
	c := Call{Method: "LandTasks", RequestID: r.RequestID, Body: r}
	result, repeated, err := s.EarlierResult(ctx, c)
	if err != nil {
		return nil, err
	}
	if repeated {
		return s.workByIDs(ctx, result.ObjectID)
	}
	ids := r.TaskIDs
	if len(ids) == 0 {
		if ids, err = s.landableTaskIDs(ctx, p, r); err != nil {
			return nil, err
		}
	}
	work, err := s.workToLand(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	targets, err := s.landingTargets(ctx, r, work)
	if err != nil {
		return nil, err
	}
	if r.DryRun {
		return work, s.predictLandings(ctx, p, r, work, targets)
	}
	result, _, err = s.Once(ctx, c, func(tx fleet.Tx, p fleet.Principal) (CallResult, error) {
		return s.queueLandings(tx, p, r, work, targets)
	})
	if err != nil {
		return nil, err
	}
	return s.workByIDs(ctx, result.ObjectID)
}

// landingTarget is the branch of a repository into which work lands.
type landingTarget struct {
	repo   fleet.Repository // nil if another server has the repository
	branch fleet.Branch
}

// landingTargets returns the branch into which the work of each train lands.
func (s *Service) landingTargets(ctx context.Context, r LandRequest, work []*LandingView) (map[fleet.Train]*landingTarget, error) {
	targets := map[fleet.Train]*landingTarget{}
	for _, w := range work {
		if targets[trainOf(w.Landing)] != nil {
			continue
		}
		target := &landingTarget{branch: fleet.Branch{Name: r.Into}}
		targets[trainOf(w.Landing)] = target
		if s.places.Configured(w.Place) == nil && !r.DryRun { // the server with the repository lands it
			continue
		}
		var err error
		if target.repo, err = s.repository(w.Place, w.Project); err != nil {
			return nil, err
		}
		if target.branch, err = target.repo.Branch(ctx, r.Into); err != nil {
			return nil, err
		}
	}
	return targets, nil
}

func trainOf(l *fleet.Landing) fleet.Train { return fleet.Train{Place: l.Place, Project: l.Project} }

// queueLandings puts the work into the queues of its branches, except work that is landing already.
func (s *Service) queueLandings(tx fleet.Tx, p fleet.Principal, r LandRequest, work []*LandingView, targets map[fleet.Train]*landingTarget) (CallResult, error) {
	ids := make([]string, len(work))
	for i, w := range work {
		ids[i] = w.Task.ID
		t, _, l, err := s.openWork(tx, p, w.Task.ID, fleet.AccessRun)
		if err != nil {
			return CallResult{}, err
		}
		if l.State == fleet.LandingQueued && l.Candidate != "" { // it is landing
			continue
		}
		l.State, l.Problem, l.Conflicts, l.Checks = fleet.LandingQueued, "", nil, nil
		l.Request = &fleet.LandingRequest{
			By: p.Name, Authorization: fleet.Authorization{Kind: p.Kind, Scope: p.Scope}, At: s.now().Add(time.Duration(i) * time.Microsecond), Into: targets[trainOf(l)].branch.Name,
			Strategy: r.Strategy, Message: r.Message, Batch: r.Batch, Fix: !r.NoFix,
		}
		if err := s.putLanding(tx, t, l, fmt.Sprintf("%s lands it in %s", p.Name, l.Request.Into)); err != nil {
			return CallResult{}, err
		}
	}
	return CallResult{ObjectID: strings.Join(ids, " ")}, nil
}

// workByIDs returns the work of the tasks with the ids, which are separated by spaces, as it is now.
func (s *Service) workByIDs(ctx context.Context, ids string) ([]*LandingView, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) ([]*LandingView, error) {
		var tasks []*fleet.Task
		for id := range strings.FieldsSeq(ids) {
			t, err := tx.Task(id)
			if err != nil {
				return nil, err
			}
			if t != nil { // it was not deleted meanwhile
				tasks = append(tasks, t)
			}
		}
		return workOf(tx, tasks)
	})
}

// landableTaskIDs returns the ids of the completed tasks that match the request and whose work can land without changes, oldest first.
func (s *Service) landableTaskIDs(ctx context.Context, p fleet.Principal, r LandRequest) ([]string, error) {
	f, projectErr, err := s.taskFilter(ctx, p, ListTasksRequest{Project: r.Project, Selector: r.Selector})
	if err != nil {
		return nil, err
	}
	if projectErr != nil {
		return nil, asInvalid(projectErr, "project")
	}
	f.Status, f.LandingStates = fleet.TaskCompleted, []fleet.LandingState{fleet.LandingBranch, fleet.LandingReview, fleet.LandingApproved}
	found, err := view(ctx, s.store, func(tx fleet.ReadTx) (fleet.FoundTasks, error) {
		return tx.FindTasks(f, fleet.TaskWindow{Limit: MaxLandings + 1, Count: MaxLandings + 1})
	})
	if err != nil {
		return nil, err
	}
	if found.Total > MaxLandings {
		return nil, fleet.InvalidField("selector", "more than %d tasks match: select fewer", MaxLandings)
	}
	ids := make([]string, len(found.Tasks))
	for i, t := range found.Tasks {
		ids[len(ids)-1-i] = t.ID
	}
	return ids, nil
}

// workToLand returns the open work of the tasks, each work once. The error is TASK_FAILED if one of the tasks has not completed and its
// work is not approved.
func (s *Service) workToLand(ctx context.Context, p fleet.Principal, ids []string) ([]*LandingView, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (work []*LandingView, err error) {
		for _, id := range ids {
			t, _, l, err := s.openWork(tx, p, id, fleet.AccessRun)
			if err != nil {
				return nil, err
			}
			if err := checkMayLand(tx, t); err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(work, func(w *LandingView) bool { return w.Task.ID == t.ID }) {
				work = append(work, &LandingView{Landing: l, Task: t})
			}
		}
		return work, nil
	})
}

// checkMayLand returns TASK_FAILED if the task has not completed and its work is not approved.
func checkMayLand(tx fleet.ReadTx, t *fleet.Task) error {
	if t.Status == fleet.TaskCompleted {
		return nil
	}
	approved, err := isApproved(tx, t.ID)
	if err != nil || approved {
		return err
	}
	return fleet.Errorf(fleet.ReasonTaskFailed, "task %s %s, and nobody has approved its work", t.Ref(), t.Failure()).With("task_id", t.ID).
		Next("approve it with {review_task} if it is good nevertheless")
}

// isApproved reports whether the newest review of the task's work that is not only a comment approves the work.
func isApproved(tx fleet.ReadTx, taskID string) (bool, error) {
	reviews, err := tx.Reviews(taskID)
	for _, r := range slices.Backward(reviews) {
		if r.Verdict != fleet.VerdictComment {
			return r.Verdict == fleet.VerdictApprove, err
		}
	}
	return false, err
}

// predictLandings sets in each work whether it can be combined with its branch and with the work before it. It moves the branches in
// targets on.
func (s *Service) predictLandings(ctx context.Context, p fleet.Principal, r LandRequest, work []*LandingView, targets map[fleet.Train]*landingTarget) error {
	for _, w := range work {
		b := targets[trainOf(w.Landing)]
		if err := s.collectWork(ctx, b.repo, w.Task); err != nil {
			w.Err = err
			continue
		}
		w.Request = &fleet.LandingRequest{By: p.Name, At: s.now(), Into: b.branch.Name, Strategy: r.Strategy, Message: r.Message}
		combined, err := s.combine(ctx, b.repo, w, b.branch.Commit)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.Err = err
		case combined.Commit == "":
			w.State, w.Conflicts, w.Problem = fleet.LandingConflict, combined.Conflicts, conflictText(b.branch.Name, combined.Conflicts)
		default:
			w.Problem, w.Conflicts, b.branch.Commit = "", nil, combined.Commit
		}
	}
	return nil
}
