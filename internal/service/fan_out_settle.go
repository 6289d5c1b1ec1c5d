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

// SettleFanOut chooses the work of one task of a fan-out. With AbandonOthers, it stops the other tasks and abandons their
// work. It waits until they have ended, at most state.Config.CreateWait, and returns the ids of the tasks that still run or
// whose work is landing. Another call continues with these tasks, even with the same request id.
func (s *Service) SettleFanOut(ctx context.Context, r SettleFanOutRequest) (*FanOut, []string, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, nil, err
	}
	var remaining []*fleet.Task
	result, repeated, err := s.Once(ctx, Call{Method: "SettleFanOut", RequestID: r.RequestID, Body: r}, func(tx fleet.Tx, _ fleet.Principal) (CallResult, error) {
		kept, all, err := s.fanOutOf(tx, p, r.TaskID, fleet.AccessRun)
		if err != nil {
			return CallResult{}, err
		}
		if err := checkNotAbandoned(tx, kept); err != nil {
			return CallResult{}, err
		}
		for _, q := range all {
			if isKept := q.ID == kept.ID; q.Entry.Kept != isKept {
				q.Entry.Kept = isKept
				if err := tx.Put(q.ID, &q.Entry); err != nil {
					return CallResult{}, err
				}
			}
		}
		if r.AbandonOthers {
			remaining, err = s.stopOthers(tx, p, kept.ID)
		}
		return CallResult{AgentUID: kept.AgentUID, ObjectID: kept.ID}, err
	})
	if err != nil {
		return nil, nil, err
	}
	stopAgain := func() error {
		return s.store.Update(ctx, func(tx fleet.Tx) (err error) {
			remaining, err = s.stopOthers(tx, p, result.ObjectID)
			return err
		})
	}
	if repeated && r.AbandonOthers {
		err = stopAgain()
	}
	if err == nil && len(remaining) > 0 {
		if err = s.awaitEnds(ctx, remaining); err == nil {
			err = stopAgain()
		}
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := s.CompareFanOut(ctx, result.ObjectID)
	ids := make([]string, len(remaining))
	for i, t := range remaining {
		ids[i] = t.ID
	}
	return f, ids, err
}

// checkNotAbandoned returns WORK_SETTLED if the work of the task was abandoned.
func checkNotAbandoned(tx fleet.ReadTx, q *fleet.QueuedTask) error {
	l, err := landingOf(tx, q.ID)
	for err == nil && l != nil && l.State == fleet.LandingReplaced {
		l, err = landingOf(tx, l.NextTask)
	}
	if err == nil && l != nil && l.State == fleet.LandingAbandoned {
		return errWorkSettled(&q.Task, l)
	}
	return err
}

// stopOthers stops the tasks of the fan-out except the one with the id keptID, and abandons their open work. It returns the tasks that
// still run, and those whose work is landing at this moment.
func (s *Service) stopOthers(tx fleet.Tx, p fleet.Principal, keptID string) (remaining []*fleet.Task, err error) {
	_, all, err := s.fanOutOf(tx, p, keptID, fleet.AccessRun)
	if err != nil {
		return nil, err
	}
	for _, q := range all {
		if q.ID == keptID {
			continue
		}
		t, err := s.stopVariant(tx, p, q.ID)
		if err != nil {
			return nil, err
		}
		if t != nil {
			remaining = append(remaining, t)
		}
	}
	return remaining, nil
}

// stopVariant stops the task with the id firstID and those that go on with its work, and abandons the work. It returns the task that
// still runs or whose work is landing; nil if there is none.
func (s *Service) stopVariant(tx fleet.Tx, p fleet.Principal, firstID string) (*fleet.Task, error) {
	for id := firstID; id != ""; {
		t, err := s.stopTask(tx, p, id)
		if id != firstID && fleet.ReasonOf(err) == fleet.ReasonTaskNotFound { // it was deleted
			return nil, nil //nolint:nilnil // none
		}
		if err != nil {
			return nil, err
		}
		l, err := landingOf(tx, t.ID)
		switch {
		case err != nil:
			return nil, err
		case l == nil && t.Active(), l != nil && !l.State.Settled() && l.Candidate != "":
			return t, nil
		case l == nil:
			return nil, nil //nolint:nilnil // none
		case !l.State.Settled():
			if err := s.abandonWork(tx, p, t, l, "another task with the same prompt was chosen"); err != nil {
				return nil, err
			}
		}
		id = l.NextTask
	}
	return nil, nil //nolint:nilnil // none
}

// awaitEnds waits until the tasks have ended, at most state.Config.CreateWait.
func (s *Service) awaitEnds(ctx context.Context, tasks []*fleet.Task) error {
	until := s.now().Add(s.cfg.CreateWait)
	for _, t := range tasks {
		if _, err := s.waitForEnd(ctx, t, max(0, until.Sub(s.now()))); err != nil {
			return err
		}
	}
	return nil
}
