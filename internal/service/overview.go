package service

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// Overview is a summary, in numbers, of what the caller may see.
type Overview struct {
	Agents, Busy, Waiting, Stalled, Idle, Offline int            // numbers of agents; Waiting: the agent's task waits for an answer
	Questions                                     int            // number of questions that wait for an answer, of all toolsets
	LastDay                                       fleet.UsageRow // usage of the tasks of the last 24 hours, of all toolsets
	Caller                                        string
	Scope                                         fleet.Scope // of the caller
	Projects                                      []string    // projects to which the caller is restricted; empty: all
	Queue                                         *QueueSummary
	Limits                                        []LimitUse            // limits of the caller; for admins also those of projects
	Budgets                                       []state.BudgetBalance // those that are nearly used up
	Credentials                                   []CredentialView      // those that are held or nearly used up
}

// Overview returns a summary of what the caller may see. It counts only agents of ToolsetFleet.
func (s *Service) Overview(ctx context.Context) (*Overview, error) {
	p, err := fleet.PrincipalFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.refreshAgents(ctx); err != nil {
		return nil, err
	}
	o := &Overview{Caller: p.Name, Scope: p.Scope, Projects: p.Projects}
	if o.Queue, err = s.ShowQueue(ctx); err != nil {
		return nil, err
	}
	for _, v := range s.snap.All() {
		if v.Toolset == fleet.ToolsetFleet && p.Sees(&v.Agent) {
			o.count(v)
		}
	}
	owner, sharedUIDs, err := s.ownerFilter(ctx, p)
	if err != nil {
		return nil, err
	}
	tasks := fleet.TaskFilter{Owner: owner, SharedUIDs: sharedUIDs, Projects: p.Projects, Since: s.now().Add(-24 * time.Hour)}
	questions := fleet.QuestionFilter{Owner: owner, SharedUIDs: sharedUIDs, Projects: p.Projects, Waiting: true}
	err = s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		if _, o.Questions, err = tx.Questions(questions, 0, 0); err != nil {
			return err
		}
		if _, o.LastDay, err = tx.Usage(tasks, fleet.UsageByOwner, 0); err != nil {
			return err
		}
		o.Limits, err = limitUses(s.Limits(), tx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.Budgets, err = s.ListBudgets(ctx); err != nil {
		return nil, err
	}
	if o.Credentials, err = s.ListCredentials(ctx); err != nil {
		return nil, err
	}
	o.Credentials = slices.DeleteFunc(o.Credentials, func(c CredentialView) bool { return !c.Scarce(s.now()) })
	o.Budgets = slices.DeleteFunc(o.Budgets, func(r state.BudgetBalance) bool { return !r.Scarce() })
	return o, nil
}

func (o *Overview) count(v *fleet.AgentView) {
	o.Agents++
	switch v.Status() {
	case fleet.StatusBusy:
		o.Busy++
	case fleet.StatusIdle:
		o.Idle++
	case fleet.StatusOffline:
		o.Offline++
	}
	if t := v.Task; t != nil && t.OpenQuestions > 0 {
		o.Waiting++
	}
	if t := v.Task; t != nil && t.Stalled() {
		o.Stalled++
	}
}
