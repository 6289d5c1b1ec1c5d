package state

import (
	"time"

	"fleet/internal/fleet"
)

// HoldForBudget puts a task back into the queue if its run has ended because a budget was used up. The task continues its work
// later: with BreachHold when the budgets have enough left, and with BreachAsk when somebody agrees. If a budget has BreachStop, or
// the task cannot wait, HoldForBudget does nothing and returns false.
func HoldForBudget(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time) (held bool, err error) {
	r := t.Spending.Reserve
	if r == nil || o.Status == fleet.TaskCompleted || !a.DeletedAt.IsZero() || a.Desired != fleet.DesiredRunning {
		return false, nil
	}
	why, breach, isOwnLimit := t.StopReason, r.Breach, r.Fixed && t.UsedUp()
	if breach == "" && t.StopRequestedAt.IsZero() && o.ReasonCode == fleet.CodeBudget { // the program has noticed it first
		why, isOwnLimit = o.Reason, r.Fixed
		if _, balances, err := openWindows(tx, t); err != nil {
			return false, err
		} else if len(balances) > 0 {
			breach = breachOf(balances)
		}
	}
	if breach != fleet.BreachHold && breach != fleet.BreachAsk {
		return false, nil
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
	if err != nil || q == nil { // for example the turn of a session
		return false, err
	}
	t.Spending.HeldTry = t.Try + 1
	recordConversation(a, o)
	if breach == fleet.BreachHold {
		return true, requeue(tx, a, t, o, now, "interrupted, it goes on when there is money: "+why)
	}
	if err := requeue(tx, a, t, o, now, "interrupted, it goes on if somebody says so: "+why); err != nil {
		return false, err
	}
	step := fleet.Micros(0)
	if isOwnLimit {
		step = max(r.Step.Micros, 1)
	}
	return true, insertQuestion(tx, t, fleet.BudgetQuestion(t, why, r.UsedBefore.Micros+r.Step.Micros, step), now)
}

// breachOf returns the action for a task that has used up these budgets: BreachStop takes precedence over BreachAsk, and BreachAsk
// over BreachHold. Without budgets, the task has used its own limit and is stopped.
func breachOf(balances []BudgetBalance) fleet.BreachAction {
	if len(balances) == 0 {
		return fleet.BreachStop
	}
	breach := fleet.BreachHold
	for _, b := range balances {
		switch b.OnBreach {
		case fleet.BreachStop:
			return fleet.BreachStop
		case fleet.BreachAsk:
			breach = fleet.BreachAsk
		}
	}
	return breach
}
