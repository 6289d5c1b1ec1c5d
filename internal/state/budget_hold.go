package state

import (
	"time"

	"fleet/internal/fleet"
)

// HoldTask puts a task back into the queue if its run has ended because a budget was used up. The task goes on later where it was.
// Otherwise, or if the task cannot wait, HoldTask does nothing and returns false.
func HoldTask(tx fleet.Tx, a *fleet.Agent, t *fleet.Task, o fleet.Outcome, now time.Time) (held bool, err error) {
	r := t.Spent.Reserve
	if r == nil || o.Status == fleet.TaskCompleted || !a.DeletedAt.IsZero() || a.Desired != fleet.DesiredRunning {
		return false, nil
	}
	why, breach := t.StopReason, r.Breach
	if breach == "" && t.StopAsked.IsZero() && o.ReasonCode == fleet.CodeBudget { // the program has noticed it first
		why = o.Reason
		if _, rooms, err := openWindows(tx, t); err != nil {
			return false, err
		} else if len(rooms) > 0 {
			breach = breachOf(rooms)
		}
	}
	if breach != fleet.BreachHold {
		return false, nil
	}
	q, err := fleet.First(tx.Queue(fleet.QueueFilter{TaskIDs: []string{t.ID}}))
	if err != nil || q == nil { // for example the turn of a session
		return false, err
	}
	t.Spent.Holds, t.Spent.HeldTry = t.Spent.Holds+1, t.Try+1
	recordConversation(a, o)
	return true, waitAgain(tx, a, t, o, now, "interrupted, it goes on when there is money: "+why)
}

// breachOf returns what becomes of a task that has used up these budgets.
func breachOf(rooms []BudgetRoom) fleet.OnBreach {
	for _, b := range rooms {
		if b.OnBreach == fleet.BreachStop {
			return fleet.BreachStop
		}
	}
	return fleet.BreachHold
}
