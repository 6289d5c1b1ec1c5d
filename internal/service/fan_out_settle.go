package service

import (
	"context"

	"fleet/internal/fleet"
)

// SettleFanOutRequest says which of the tasks of a fan-out is kept.
type SettleFanOutRequest struct {
	TaskID        string
	AbandonOthers bool
	RequestID     string `json:"-"`
}

// SettleFanOut chooses the work of one task of a fan-out. With AbandonOthers, it stops the other tasks and abandons their work. It waits
// for their end, at most Config.CreateWait, and returns the ids of those that are left. The same call goes on with them, also with the
// same request id.
func (s *Service) SettleFanOut(ctx context.Context, r SettleFanOutRequest) (*FanOut, []string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	var left []*fleet.Task
	made, repeated, err := s.Once(ctx, Call{Method: "SettleFanOut", RequestID: r.RequestID, Body: r}, func(tx fleet.Tx) (CallResult, error) {
		kept, all, err := s.fanOutOf(tx, p, r.TaskID, fleet.AccessRun)
		if err != nil {
			return CallResult{}, err
		}
		if err := keepable(tx, kept); err != nil {
			return CallResult{}, err
		}
		for _, q := range all {
			if is := q.ID == kept.ID; q.Entry.Kept != is {
				q.Entry.Kept = is
				if err := tx.Put(q.ID, &q.Entry); err != nil {
					return CallResult{}, err
				}
			}
		}
		left, err = s.dropOthers(tx, p, kept.ID, r.AbandonOthers)
		return CallResult{AgentUID: kept.AgentUID, TaskID: kept.ID}, err
	})
	if err != nil {
		return nil, nil, err
	}
	if repeated {
		left, err = s.dropLeft(ctx, p, made.TaskID, r.AbandonOthers)
	}
	if err == nil && len(left) > 0 {
		if err = s.awaitEnds(ctx, left); err == nil {
			left, err = s.dropLeft(ctx, p, made.TaskID, r.AbandonOthers)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := s.CompareFanOut(ctx, made.TaskID)
	ids := make([]string, len(left))
	for i, t := range left {
		ids[i] = t.ID
	}
	return f, ids, err
}

// keepable returns WORK_SETTLED if the work of the task was abandoned.
func keepable(tx fleet.ReadTx, q *fleet.QueuedTask) error {
	l, err := landingOf(tx, q.ID)
	for err == nil && l != nil && l.State == fleet.LandingReplaced {
		l, err = landingOf(tx, l.NextTask)
	}
	if err == nil && l != nil && l.State == fleet.LandingAbandoned {
		return settledWork(&q.Task, l)
	}
	return err
}

// dropLeft is dropOthers in a transaction of its own.
func (s *Service) dropLeft(ctx context.Context, p fleet.Principal, kept string, abandon bool) (left []*fleet.Task, err error) {
	err = s.store.Update(ctx, func(tx fleet.Tx) error {
		left, err = s.dropOthers(tx, p, kept, abandon)
		return err
	})
	return left, err
}

// dropOthers stops the other tasks of the fan-out and abandons their open work. It returns those that run, and those whose work lands at this
// moment.
func (s *Service) dropOthers(tx fleet.Tx, p fleet.Principal, kept string, abandon bool) (left []*fleet.Task, err error) {
	if !abandon {
		return nil, nil
	}
	_, all, err := s.fanOutOf(tx, p, kept, fleet.AccessRun)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if q.ID == kept {
			continue
		}
		for id := q.ID; id != ""; {
			t, err := s.stopIn(tx, p, id)
			if err != nil {
				if fleet.ReasonOf(err) == fleet.ReasonTaskNotFound && id != q.ID { // it was deleted
					break
				}
				return nil, err
			}
			id = ""
			l, err := landingOf(tx, t.ID)
			switch {
			case err != nil:
				return nil, err
			case l == nil && t.Active():
				left = append(left, t)
			case l == nil:
			case l.State.Settled():
				id = l.NextTask
			case l.Candidate != "":
				left = append(left, t)
			default:
				id = l.NextTask
				if err := s.abandonIn(tx, p, t, l, "another task with the same prompt was chosen"); err != nil {
					return nil, err
				}
			}
		}
	}
	return left, nil
}

// awaitEnds waits until the tasks have ended, at most Config.CreateWait.
func (s *Service) awaitEnds(ctx context.Context, tasks []*fleet.Task) error {
	until := s.now().Add(s.cfg.CreateWait)
	for _, t := range tasks {
		if _, err := s.waitFor(ctx, t.AgentUID, max(0, until.Sub(s.now())), func(v *fleet.AgentView) bool { return v.Task == nil || v.Task.ID != t.ID }); err != nil {
			return err
		}
	}
	return nil
}
