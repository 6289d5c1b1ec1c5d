package service

import (
	"context"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// queueBudgets has the budgets for one decision about the queue. It computes values that several tasks share only once.
type queueBudgets struct {
	agent           func(*fleet.QueuedTask) *fleet.Agent         // Service.agentFor
	maxCost         func(*fleet.Agent, *fleet.Task) fleet.Micros // Service.maxCost
	all             []*fleet.Budget
	labelBudgets    []labelBudget
	agentBudgets    []*fleet.Budget                // these may apply to only some agents of a pool or a role
	balances        map[string]state.BudgetBalance // by budget
	groups          map[taskGroup]*groupBudgets    // of pending tasks, and of tasks that have reserved the cost of others
	claimsByKey     map[claimKey][]fleet.BudgetClaim
	tasks           []*fleet.QueuedTask
	reservedWindows map[string][]fleet.LedgerKey // the windows in which a pending task has a reservation already, by task
}

// labelBudget is a budget for tasks with labels, with its selector.
type labelBudget struct {
	*fleet.Budget
	selector fleet.Selector
}

// taskGroup identifies the tasks of an agent, or the tasks that wait for an agent of a target. All tasks of a group have the
// same budgets, except label budgets.
type taskGroup struct {
	agentUID, owner string
	target          fleet.Target
}

func groupOf(q *fleet.QueuedTask) taskGroup {
	if q.AgentUID != "" {
		return taskGroup{agentUID: q.AgentUID}
	}
	return taskGroup{owner: q.Owner, target: q.Entry.Target}
}

// groupBudgets has the budgets of a group, and the values from which the costs of its tasks follow.
type groupBudgets struct {
	budgets  []*fleet.Budget // except label budgets
	estimate kindEstimate
	limit    fleet.Micros // of the project and the role
}

// budgetSet identifies the budgets that apply to a task.
type budgetSet struct {
	group     *groupBudgets
	labelBits [fleet.MaxBudgets/64 + 1]uint64 // bits of the budgets in queueBudgets.labelBudgets
	agentUID  string                          // the agent, if some of queueBudgets.agentBudgets apply to it
}

// claimKey contains everything that the claims of a task depend on, unless the task waits for an answer.
type claimKey struct {
	budgets       budgetSet
	used          fleet.Amount
	given         fleet.Micros // to its children
	maxUSD        float64
	model         string
	limit         fleet.Micros // see fleet.Delegation
	parentBudgets budgetSet    // those of the fundingParent; zero if there is none
	reservingTask string       // the task, if it has a reservation already
}

// readQueueBudgets reads the budgets, and estimates the costs of the pending tasks. It reads nothing if no task is pending.
func (s *Service) readQueueBudgets(ctx context.Context, tasks []*fleet.QueuedTask) (*queueBudgets, error) {
	b := &queueBudgets{
		agent: s.agentFor, maxCost: s.maxCost, tasks: tasks,
		balances: map[string]state.BudgetBalance{}, groups: map[taskGroup]*groupBudgets{}, claimsByKey: map[claimKey][]fleet.BudgetClaim{},
		reservedWindows: map[string][]fleet.LedgerKey{},
	}
	if !slices.ContainsFunc(tasks, func(q *fleet.QueuedTask) bool { return q.Status == fleet.TaskPending }) {
		return b, nil
	}
	err := s.estimates.view(ctx, s, func(tx fleet.ReadTx, estimate func(*fleet.Agent) (kindEstimate, error)) (err error) {
		clear(b.groups)
		if b.all, err = fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind}); err != nil {
			return err
		}
		balances, err := state.BudgetBalances(tx, b.all, s.now())
		if err != nil {
			return err
		}
		for _, balance := range balances {
			b.balances[balance.Name] = balance
		}
		b.labelBudgets, b.agentBudgets = nil, nil
		for _, budget := range b.all {
			if budget.Scope == fleet.BudgetAgent || budget.Scope == fleet.BudgetCredential {
				b.agentBudgets = append(b.agentBudgets, budget)
			}
			if selector, err := fleet.ParseSelector("value", budget.Value); err == nil && budget.Scope == fleet.BudgetLabel {
				b.labelBudgets = append(b.labelBudgets, labelBudget{budget, selector})
			}
		}
		fundsOthers := map[string]bool{} // by task
		for _, q := range tasks {
			fundsOthers[q.ParentID] = q.Delegation.ReservedTry > 0 || fundsOthers[q.ParentID]
		}
		for _, q := range tasks {
			if q.Status != fleet.TaskPending && !fundsOthers[q.ID] || b.groups[groupOf(q)] != nil {
				continue
			}
			if b.groups[groupOf(q)], err = b.readGroup(q, estimate); err != nil {
				return err
			}
		}
		return b.readReservations(tx)
	})
	return b, err
}

// readReservations reads the reservations that pending tasks have already, see state.TakeFunds.
func (b *queueBudgets) readReservations(tx fleet.ReadTx) error {
	clear(b.reservedWindows)
	for _, q := range b.tasks {
		if q.Status != fleet.TaskPending || q.Spending.Reserve == nil {
			continue
		}
		l, err := tx.Ledger(fleet.LedgerFilter{TaskID: q.ID})
		if err != nil {
			return err
		}
		for _, total := range l.Totals {
			if total.Reserved.Micros > 0 {
				b.reservedWindows[q.ID] = append(b.reservedWindows[q.ID], total.LedgerKey)
			}
		}
	}
	return nil
}

// readGroup returns the budgets and the estimated costs of the task's group.
func (b *queueBudgets) readGroup(q *fleet.QueuedTask, estimate func(*fleet.Agent) (kindEstimate, error)) (g *groupBudgets, err error) {
	a := b.agent(q)
	g = &groupBudgets{budgets: state.BudgetsOf(b.all, a, &fleet.Task{}), limit: b.maxCost(a, &fleet.Task{})}
	g.budgets = slices.DeleteFunc(g.budgets, func(b *fleet.Budget) bool { return b.Scope == fleet.BudgetLabel })
	if len(g.budgets)+len(b.labelBudgets)+len(b.agentBudgets) > 0 {
		g.estimate, err = estimate(a)
	}
	return g, err
}

// fundingParent returns the task's parent if its reservation includes the cost of the task. Otherwise it returns nil.
func (b *queueBudgets) fundingParent(q *fleet.QueuedTask) *fleet.QueuedTask {
	if q.Delegation.ReservedTry == 0 {
		return nil
	}
	for _, parent := range b.tasks {
		if parent.ID == q.ParentID && state.IsFunded(&parent.Task, &q.Task) {
			return parent
		}
	}
	return nil
}

// budgetsOf returns the budgets that apply to the task on the agent. If a is nil, these are the budgets that apply on each agent that may
// take the task.
func (b *queueBudgets) budgetsOf(q *fleet.QueuedTask, a *fleet.Agent) (budgets []*fleet.Budget, set budgetSet) {
	set.group = b.groups[groupOf(q)]
	budgets = set.group.budgets
	labels := q.Labels
	if a != nil {
		labels = a.Labels.With(labels)
		for _, budget := range b.agentBudgets {
			if budget.Applies(a, &q.Task) && !slices.Contains(set.group.budgets, budget) {
				budgets, set.agentUID = append(slices.Clip(budgets), budget), a.UID
			}
		}
	}
	for i, l := range b.labelBudgets {
		if l.selector.Matches(labels) {
			budgets = append(slices.Clip(budgets), l.Budget)
			set.labelBits[i/64] |= 1 << (i % 64)
		}
	}
	return budgets, set
}

// agentFor returns the agent of the pending task. For a task of a pool or a role, it returns an agent with the values that all
// agents of the pool or the role share.
func (s *Service) agentFor(q *fleet.QueuedTask) *fleet.Agent {
	if v := s.snap.Get(q.AgentUID); v != nil {
		return &v.Agent
	}
	t := q.Entry.Target
	a := &fleet.Agent{Name: q.AgentName, Owner: q.Owner, Place: t.Place, Project: t.Project, Role: t.Role, Pool: t.Pool}
	a.Host.Credential = s.places.Of(a).Credential(a.Project)
	return a
}

// claims returns the claims of the pending task: one for each budget that must reserve its cost, or a single one if the task must wait
// for another reason.
func (b *queueBudgets) claims(q *fleet.QueuedTask) []fleet.BudgetClaim { return b.claimsOn(q, nil) }

// claimsOn returns the claims of the pending task on the agent. If a is nil, these are the claims on each agent that may take the task.
func (b *queueBudgets) claimsOn(q *fleet.QueuedTask, a *fleet.Agent) []fleet.BudgetClaim {
	budgets, set := b.budgetsOf(q, a)
	if q.OpenQuestions > 0 {
		return []fleet.BudgetClaim{awaitingAnswer(budgets, &q.Task)}
	}
	key := claimKey{budgets: set, used: q.Used(), given: q.Delegation.GivenToChildren, model: q.Options.Model, limit: q.Delegation.Limit}
	var parentBudgets []*fleet.Budget // these have reserved the cost for the task's parent
	if parent := b.fundingParent(q); parent != nil {
		parentBudgets, key.parentBudgets = b.budgetsOf(parent, nil)
	}
	if len(b.reservedWindows[q.ID]) > 0 {
		key.reservingTask = q.ID
	}
	if usd := q.Options.MaxCostUSD; usd != nil {
		key.maxUSD = *usd
	}
	claims, known := b.claimsByKey[key]
	if !known {
		claims = b.computeClaims(q, set.group, budgets, parentBudgets)
		b.claimsByKey[key] = claims
	}
	return claims
}

// agentError returns BUDGET_EXCEEDED if the task, which several agents may take, cannot start on the agent because of a budget that is not
// for all of them.
func (b *queueBudgets) agentError(q *fleet.QueuedTask, a *fleet.Agent, now time.Time) error {
	if q.AgentUID != "" || len(b.labelBudgets)+len(b.agentBudgets) == 0 {
		return nil
	}
	all := b.claims(q)
	for _, c := range b.claimsOn(q, a) {
		if c.Text == "" || slices.ContainsFunc(all, func(o fleet.BudgetClaim) bool { return o.Budget == c.Budget }) {
			continue
		}
		err := fleet.Errorf(fleet.ReasonBudgetExceeded, "%s", c.Text).With("budget", c.Budget)
		if !c.Until.IsZero() {
			err = err.After(c.Until.Sub(now))
		}
		return err
	}
	return nil
}

// computeClaims returns the claims of a task of the group in the budgets, except those in parentBudgets, see claims.
func (b *queueBudgets) computeClaims(q *fleet.QueuedTask, g *groupBudgets, budgets, parentBudgets []*fleet.Budget) (claims []fleet.BudgetClaim) {
	e := state.Estimate{Amount: g.estimate.Amount, Limit: q.Delegation.CapLimit(g.limit)}
	if len(budgets) > 0 {
		e.UnpricedReason = g.estimate.unpricedReason(&q.Task)
	}
	reservation := state.WantedReservation(budgets, &q.Task, e)
	for _, o := range state.BudgetObstacles(nil, &q.Task, reservation, e) { // its own limit
		return []fleet.BudgetClaim{{Text: o.Text, Until: o.Until, Next: "`raise_task_budget` raises it"}}
	}
	for _, budget := range budgets {
		if slices.Contains(parentBudgets, budget) {
			continue
		}
		balance := b.balances[budget.Name]
		if slices.Contains(b.reservedWindows[q.ID], balance.Key) {
			continue
		}
		c := fleet.BudgetClaim{Budget: budget.Name, Needed: reservation.Amount, Until: balance.End, Next: "`show_budget` shows what it was spent on; an admin can raise it with `set_budget`"}
		for _, o := range state.BudgetObstacles([]state.BudgetBalance{balance}, &q.Task, reservation, e) {
			c.Text, c.Until = o.Text, o.Until
		}
		claims = append(claims, c)
	}
	return claims
}

// awaitingAnswer returns the claim of a task that waits for the answer to a question about its budget. The task waits even if its budgets
// have enough left.
func awaitingAnswer(budgets []*fleet.Budget, t *fleet.Task) fleet.BudgetClaim {
	c := fleet.BudgetClaim{Text: "it has used up a budget, and goes on if somebody says so: answer the question " + t.BudgetQuestionID(), Next: "`answer_question` answers it"}
	for _, b := range budgets {
		if c.Budget == "" || b.OnBreach == fleet.BreachAsk {
			c.Budget = b.Name
		}
	}
	return c
}

// fits reports whether the budget has the amount left.
func (b *queueBudgets) fits(name string, needed fleet.Amount) bool {
	balance := b.balances[name]
	return balance.Fits(balance.Left, needed)
}
