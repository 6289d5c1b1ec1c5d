package service

import (
	"context"
	"slices"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// queueBudgets is what a decision about the queue knows of the budgets.
type queueBudgets struct {
	agent     func(*fleet.QueuedTask) *fleet.Agent
	all       []*fleet.Budget
	rooms     map[string]state.BudgetRoom
	estimates map[string]func(*fleet.Task) state.Estimate // by place, project and role
}

// queueBudgets reads the budgets, and what tasks like the pending ones cost.
func (s *Service) queueBudgets(ctx context.Context, tasks []*fleet.QueuedTask) (*queueBudgets, error) {
	b := &queueBudgets{agent: s.runs}
	if !slices.ContainsFunc(tasks, func(q *fleet.QueuedTask) bool { return q.Status == fleet.TaskPending }) {
		return b, nil
	}
	err := s.store.View(ctx, func(tx fleet.ReadTx) (err error) {
		*b = queueBudgets{agent: s.runs, rooms: map[string]state.BudgetRoom{}, estimates: map[string]func(*fleet.Task) state.Estimate{}}
		if b.all, err = fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind}); err != nil || len(b.all) == 0 {
			return err
		}
		rooms, err := state.Rooms(tx, b.all, s.now())
		if err != nil {
			return err
		}
		for _, r := range rooms {
			b.rooms[r.Name] = r
		}
		for _, q := range tasks {
			a := s.runs(q)
			if q.Status != fleet.TaskPending || b.estimates[kindOf(a)] != nil || len(state.BudgetsOf(b.all, a, &q.Task)) == 0 {
				continue
			}
			if b.estimates[kindOf(a)], err = s.estimate(tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	return b, err
}

// kindOf names what agents have in common whose tasks cost about the same.
func kindOf(a *fleet.Agent) string {
	return a.Place + "\x00" + a.Project + "\x00" + a.Role + "\x00" + string(a.Toolset)
}

// runs returns the agent of the pending task. For a task of a pool or a role, that is one like those that may run it.
func (s *Service) runs(q *fleet.QueuedTask) *fleet.Agent {
	if v := s.snap.Get(q.AgentUID); v != nil {
		return &v.Agent
	}
	t := q.Entry.Target
	a := &fleet.Agent{Name: q.AgentName, Owner: q.Owner, Place: t.Place, Project: t.Project, Role: t.Role, Pool: t.Pool}
	a.Host.Credential = s.places.Of(a).Credential(a.Project)
	return a
}

// claims returns what the pending task must reserve.
func (b *queueBudgets) claims(q *fleet.QueuedTask) (claims []fleet.Claim) {
	a := b.agent(q)
	of := state.BudgetsOf(b.all, a, &q.Task)
	if q.Waiting > 0 {
		return []fleet.Claim{asked(of, &q.Task)}
	}
	if len(of) == 0 {
		return nil
	}
	var e state.Estimate
	if known := b.estimates[kindOf(a)]; known != nil {
		e = known(&q.Task)
	}
	want := state.Wanted(of, &q.Task, e)
	for _, budget := range of {
		room := b.rooms[budget.Name]
		c := fleet.Claim{Budget: budget.Name, Want: want.Amount, Until: room.End}
		for _, o := range state.Obstacles([]state.BudgetRoom{room}, &q.Task, want, e) {
			c.Text, c.Until = o.Text, o.Until
		}
		claims = append(claims, c)
	}
	return claims
}

// asked returns what keeps a task from going on about which Fleet has asked, although its budgets may have room.
func asked(budgets []*fleet.Budget, t *fleet.Task) fleet.Claim {
	c := fleet.Claim{Text: "it has used up a budget, and goes on if somebody says so: answer the question " + t.BudgetQuestionID()}
	for _, b := range budgets {
		if c.Budget == "" || b.OnBreach == fleet.BreachAsk {
			c.Budget = b.Name
		}
	}
	return c
}

// fits reports whether the budget has the amount left.
func (b *queueBudgets) fits(name string, want fleet.Amount) bool {
	r := b.rooms[name]
	return r.Fits(r.Left, want)
}
