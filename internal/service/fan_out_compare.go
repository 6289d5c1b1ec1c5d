package service

import (
	"context"
	"errors"
	"time"

	"fleet/internal/fleet"
)

// Variant is a task of a fan-out, with the tasks that go on with its work.
type Variant struct {
	Tasks   []*fleet.Task // oldest first
	Checks  *fleet.TaskChecks
	Work    *LandingView  // the newest work; nil if there is none
	Review  *fleet.Review // the newest review of Work; nil if there is none
	Cost    float64       // in US dollars
	RunTime time.Duration // the time that its tasks have run, in total
	Kept    bool          // SettleFanOut has chosen it
}

// NewestTask returns the task that was started last.
func (v *Variant) NewestTask() *fleet.Task { return v.Tasks[len(v.Tasks)-1] }

// Model returns the model of the variant; "" if it is not known.
func (v *Variant) Model() string {
	if model := v.Tasks[0].Options.Model; model != "" {
		return model
	}
	return v.NewestTask().Usage.Model
}

// FanOut is the result of CompareFanOut.
type FanOut struct {
	Variants []*Variant          // those that the caller may see
	Pairs    []fleet.WorkOverlap // pairs of open work that change the same lines or are in conflict
	Problem  error               // why Pairs is not known; nil if it is known
}

// CompareFanOut returns the fan-out to which the task with the id belongs, with the pairs of its open work that change the
// same lines or are in conflict.
func (s *Service) CompareFanOut(ctx context.Context, id string) (*FanOut, error) {
	variants, err := viewAs(ctx, s.store, func(tx fleet.ReadTx, p fleet.Principal) (variants []*Variant, err error) {
		_, all, err := s.fanOutOf(tx, p, id, fleet.AccessView)
		if err != nil {
			return nil, err
		}
		for _, q := range all {
			v, err := s.readVariant(tx, p, q)
			if err != nil {
				return nil, err
			}
			if v != nil {
				variants = append(variants, v)
			}
		}
		return variants, nil
	})
	if err != nil {
		return nil, err
	}
	f := &FanOut{Variants: variants}
	f.Pairs, f.Problem = s.overlapsOf(ctx, f.Variants)
	if _, known := errors.AsType[*fleet.Error](f.Problem); f.Problem != nil && !known || fleet.ReasonOf(f.Problem) == fleet.ReasonInternal {
		return nil, f.Problem
	}
	return f, nil
}

// fanOutOf returns the entry of a task of a fan-out, and the entries of all tasks of the fan-out. id names the task, or one
// that goes on with its work. The error is NOT_FANNED_OUT if the task was queued alone.
func (s *Service) fanOutOf(tx fleet.ReadTx, p fleet.Principal, id string, needed fleet.Access) (*fleet.QueuedTask, []*fleet.QueuedTask, error) {
	if id == "" {
		return nil, nil, errNoTaskID()
	}
	t, err := s.task(tx, p, id, needed)
	for err == nil && t.Options.Continues != "" {
		t, err = s.task(tx, p, t.Options.Continues, needed)
	}
	if err != nil {
		return nil, nil, err
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}, IncludeEnded: true}))
	if err != nil {
		return nil, nil, err
	}
	if q == nil || len(q.Entry.FanOut) == 0 {
		return nil, nil, fleet.Errorf(fleet.ReasonNotFannedOut, "task %s was queued alone, so there is nothing to compare it with", t.Ref()).
			With("task_id", t.ID).Next("{fan_out_task} queues several tasks with the same prompt")
	}
	all, err := tx.Queue(fleet.QueueFilter{TaskIDs: q.Entry.FanOut, IncludeEnded: true})
	return q, all, err
}

// readVariant returns the variant whose first task is q, or nil if p may not see the task.
func (s *Service) readVariant(tx fleet.ReadTx, p fleet.Principal, q *fleet.QueuedTask) (*Variant, error) {
	access, err := accessToTask(tx, p, &q.Task)
	if err != nil || access == fleet.AccessNone {
		return nil, err
	}
	v := &Variant{Kept: q.Entry.Kept}
	for t := &q.Task; t != nil; {
		v.addTask(t, s.now())
		if t.Landing, err = landingOf(tx, t.ID); err != nil {
			return nil, err
		}
		next := ""
		if t.Landing != nil {
			v.Work, next = &LandingView{Landing: t.Landing, Task: t}, t.Landing.NextTask
		}
		if t = nil; next != "" {
			if t, err = tx.Task(next); err != nil {
				return nil, err
			}
		}
	}
	return v, v.readChecksAndReviews(tx)
}

// addTask adds the next task to the variant. For a running task, the time up to now counts.
func (v *Variant) addTask(t *fleet.Task, now time.Time) {
	v.Tasks, v.Cost = append(v.Tasks, t), v.Cost+t.CostUSD
	switch {
	case t.StartedAt.IsZero():
	case t.EndedAt.IsZero():
		v.RunTime += now.Sub(t.StartedAt)
	default:
		v.RunTime += t.EndedAt.Sub(t.StartedAt)
	}
}

// readChecksAndReviews reads the checks of the newest task and the reviews of its work.
func (v *Variant) readChecksAndReviews(tx fleet.ReadTx) (err error) {
	if v.Checks, err = tx.Checks(v.NewestTask().ID); err != nil || v.Work == nil {
		return err
	}
	v.Work.Reviews, err = tx.Reviews(v.Work.TaskID)
	if n := len(v.Work.Reviews); n > 0 {
		v.Review = v.Work.Reviews[n-1]
	}
	return err
}

// overlapsOf compares the open work of the variants, like ShowOverlaps.
func (s *Service) overlapsOf(ctx context.Context, all []*Variant) ([]fleet.WorkOverlap, error) {
	var open []*LandingView
	for _, v := range all {
		if v.Work != nil && !v.Work.State.Settled() {
			open = append(open, v.Work)
		}
	}
	if len(open) < 2 {
		return nil, nil
	}
	repo, err := s.repository(open[0].Place, open[0].Project)
	if err != nil {
		return nil, err
	}
	o := &Overlaps{}
	if o.Into, err = repo.Branch(ctx, ""); err != nil {
		return nil, err
	}
	err = s.compareWork(ctx, repo, o, open)
	return o.Pairs, err
}
