package service

import (
	"context"
	"strings"

	"fleet/internal/fleet"
)

// AbandonTask abandons the open work of the task: the work does not land, and may be removed after the retention period of abandoned
// work. The error is WORK_SETTLED if the work has landed, was abandoned or replaced, or is landing at this moment.
func (s *Service) AbandonTask(ctx context.Context, id, why, requestID string) (*LandingView, error) {
	if id == "" {
		return nil, errNoTaskID()
	}
	if err := checkOptionalText("reason", "reason", why); err != nil {
		return nil, err
	}
	task, err := s.onceTask(ctx, Call{Method: "AbandonTask", RequestID: requestID, Body: []string{id, why}}, func(tx fleet.Tx, p fleet.Principal) (*fleet.Task, error) {
		t, _, l, err := s.openWork(tx, p, id, fleet.AccessRun)
		if err != nil {
			return nil, err
		}
		return t, s.abandonWork(tx, p, t, l, why)
	})
	if err != nil {
		return nil, err
	}
	return s.landingView(ctx, task.ID)
}

// abandonWork abandons the open work of the task, unless the work is landing at this moment.
func (s *Service) abandonWork(tx fleet.Tx, p fleet.Principal, t *fleet.Task, l *fleet.Landing, why string) error {
	if l.Candidate != "" {
		return errLanding(t, l)
	}
	l.State, l.Request, l.Problem = fleet.LandingAbandoned, nil, "abandoned by "+p.Name
	if why = strings.TrimSpace(why); why != "" {
		l.Problem += ": " + why
	}
	return s.putLanding(tx, t, l, l.Problem)
}
