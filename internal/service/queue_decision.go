package service

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/queue"
)

// startKey identifies the start of a task on an agent.
type startKey struct{ taskID, agentUID string }

// queueDecision reads what has changed in the queue and the agents, and decides which tasks start. It starts none. refusals has the errors
// of starts that it must not decide on again; it may be nil.
func (s *Service) queueDecision(ctx context.Context, detail queue.Detail, refusals map[startKey]error) (queue.Decision, error) {
	if err := s.queue.Refresh(ctx); err != nil {
		return queue.Decision{}, err
	}
	tasks, pools := s.queue.Tasks(), s.queue.Pools()
	if err := s.snap.Refresh(ctx); err != nil {
		return queue.Decision{}, err
	}
	room, err := s.taskRoom(ctx, tasks)
	if err != nil {
		return queue.Decision{}, err
	}
	budgets, err := s.readQueueBudgets(ctx, tasks)
	if err != nil {
		return queue.Decision{}, err
	}
	return queue.Decide(queue.State{
		Tasks: tasks, Now: s.now(), AgeStep: s.cfg.AgeStep, Detail: detail, Pause: s.queue.Pause(),
		Agent:  s.snap.Get,
		Agents: s.snap.All(), Pools: pools, Dependee: s.queue.Dependee,
		PlaceError: func(a *fleet.Agent) error { return s.places.Of(a).Available() },
		UseError: func(q *fleet.QueuedTask, a *fleet.Agent) error {
			if err := refusals[startKey{q.ID, a.UID}]; err != nil {
				return err
			}
			if err := s.checkAgentUse(q, a); err != nil {
				return err
			}
			return budgets.agentError(q, a, s.now())
		},
		TaskRoom:        func(owner string) (int, bool) { r, limited := room[owner]; return r, limited },
		ProjectRoom:     s.projectRoom(),
		CredentialWaits: s.credentialWaits(),
		Claims:          budgets.claims,
		BudgetFits:      budgets.fits,
	}), nil
}

// taskRoom returns how many more tasks may run, by owner. It contains the owners of the tasks, except those without a limit.
func (s *Service) taskRoom(ctx context.Context, tasks []*fleet.QueuedTask) (map[string]int, error) {
	room := map[string]int{}
	all := s.Limits()
	known := map[string]bool{}
	for _, q := range tasks {
		if known[q.Owner] {
			continue
		}
		known[q.Owner] = true
		groups, err := s.LastGroups(ctx, q.Owner)
		if err != nil {
			return nil, err
		}
		if most := all.For(q.Owner, groups).RunningTasks; most > 0 {
			room[q.Owner] = most
		}
	}
	if len(room) == 0 {
		return room, nil
	}
	for _, v := range s.snap.All() {
		if _, limited := room[v.Owner]; limited && v.Task != nil {
			room[v.Owner]--
		}
	}
	return room, nil
}

// projectRoom returns how many more tasks may run, by project. It contains only projects with a limit.
func (s *Service) projectRoom() map[string]int {
	room := map[string]int{}
	for name, l := range s.Limits().Projects {
		if l.RunningTasks > 0 {
			room[name] = l.RunningTasks
		}
	}
	if len(room) == 0 {
		return room
	}
	for _, v := range s.snap.All() {
		if _, limited := room[v.Project]; limited && v.Task != nil {
			room[v.Project]--
		}
	}
	return room
}

// queuedBy returns the principal that queued the task, with the kind and the scope that it had then, and without its groups.
func queuedBy(q *fleet.QueuedTask) fleet.Principal {
	return fleet.Principal{Name: q.Entry.By, Kind: q.Entry.Kind, Scope: q.Entry.Scope, UnconfinedIn: q.Entry.UnconfinedIn}
}

// checkAgentUse returns an error if the principal that has queued the task may not use the agent. A task that goes on has used it before.
func (s *Service) checkAgentUse(q *fleet.QueuedTask, a *fleet.Agent) error {
	if q.Delegation.Waits {
		return nil
	}
	return s.checkConfined(queuedBy(q), a)
}
