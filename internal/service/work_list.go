package service

import (
	"context"
	"slices"

	"fleet/internal/fleet"
)

// ListWorkRequest selects work: that of the task if TaskID is set, and all matching work otherwise.
type ListWorkRequest struct {
	TaskID   string               // the other fields select nothing if it is set
	Project  string               // empty: of all projects
	States   []fleet.LandingState // empty: all openStates
	Selector string               // of labels
	fleet.PageRequest
}

// openStates are the states of work that has neither landed nor been abandoned or replaced.
var openStates = []fleet.LandingState{
	fleet.LandingBranch, fleet.LandingReview, fleet.LandingChangesRequested, fleet.LandingApproved, fleet.LandingQueued, fleet.LandingConflict,
}

// WorkList is a page of work, newest first.
type WorkList struct {
	Work  []*LandingView
	Total int    // how much matching work there is; counted up to state.Config.MaxCounted
	Next  string // cursor of the next page; "" on the last page
}

// ListWork returns a page of the matching work that the caller may see, with its reviews. It implements the API's call ListReviews.
func (s *Service) ListWork(ctx context.Context, r ListWorkRequest) (*WorkList, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	for _, state := range r.States {
		if !state.Valid() {
			return nil, fleet.InvalidField("states", "states has %q, which is not a state of work", fleet.Shorten(string(state), 40))
		}
	}
	if r.TaskID != "" {
		return s.workOfTask(ctx, p, r.TaskID)
	}
	offset, count, err := r.Window(fleet.DefaultPageSize)
	if err != nil {
		return nil, err
	}
	f, projectErr, err := s.taskFilter(ctx, p, ListTasksRequest{Project: r.Project, Selector: r.Selector})
	if err != nil {
		return nil, err
	}
	f.LandingStates, f.Ended = r.States, true
	if len(f.LandingStates) == 0 {
		f.LandingStates = openStates
	}
	l := &WorkList{}
	err = s.store.View(ctx, func(tx fleet.ReadTx) error {
		found, err := tx.FindTasks(f, fleet.TaskWindow{Limit: count, Offset: offset, Count: s.cfg.MaxCounted})
		if err == nil && found.Total == 0 && r.Project != "" {
			err = checkProject(tx, f, projectErr)
		}
		if err != nil {
			return err
		}
		l.Total, l.Next = found.Total, fleet.NextCursor(offset, len(found.Tasks), found.Total)
		if l.Work, err = workOf(tx, found.Tasks); err != nil {
			return err
		}
		for _, v := range l.Work {
			if v.Reviews, err = tx.Reviews(v.TaskID); err != nil {
				return err
			}
		}
		return nil
	})
	return l, err
}

// workOf returns the work of those tasks that have work, without its reviews, in the order of the tasks. It also sets Task.Landing.
func workOf(tx fleet.ReadTx, tasks []*fleet.Task) ([]*LandingView, error) {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	landings, err := tx.Landings(fleet.LandingFilter{TaskIDs: ids})
	if err != nil {
		return nil, err
	}
	work := []*LandingView{}
	for _, t := range tasks {
		if i := slices.IndexFunc(landings, func(l *fleet.Landing) bool { return l.TaskID == t.ID }); i >= 0 {
			t.Landing = landings[i]
			work = append(work, &LandingView{Landing: landings[i], Task: t})
		}
	}
	return work, nil
}

// workOfTask returns the work of one task, with its reviews. If it has none, the list is empty.
func (s *Service) workOfTask(ctx context.Context, p fleet.Principal, id string) (*WorkList, error) {
	return view(ctx, s.store, func(tx fleet.ReadTx) (*WorkList, error) {
		t, err := s.task(tx, p, id, fleet.AccessView)
		if err != nil {
			return nil, err
		}
		work, err := workOf(tx, []*fleet.Task{t})
		if err == nil && len(work) > 0 {
			work[0].Reviews, err = tx.Reviews(t.ID)
		}
		return &WorkList{Work: work, Total: len(work)}, err
	})
}
