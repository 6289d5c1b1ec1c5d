package state

import (
	"time"

	"fleet/internal/fleet"
)

// HoldTask makes a task wait whose run has ended with the outcome because a budget was used up, so that it goes on later where it
// was. It does nothing and returns false if that is not why the run has ended, or if the task cannot wait.
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
	t.AddUsage(o)
	t.Status, t.StartedAt, t.Dispatched, t.Cursor, t.Try = fleet.TaskPending, time.Time{}, time.Time{}, "", t.Try+1
	t.StopAsked, t.StopReason, t.StalledAt, t.LastStep, t.CollectingAt = time.Time{}, "", time.Time{}, "", time.Time{}
	t.Spent.Holds, t.Spent.HeldTry = t.Spent.Holds+1, t.Try
	if err := settle(tx, t, now); err != nil {
		return false, err
	}
	if err := withdrawQuestions(tx, t, now); err != nil {
		return false, err
	}
	a.UpdatedAt = now
	converse(a, o)
	if err := tx.Update(a); err != nil {
		return false, err
	}
	if err := tx.Update(t); err != nil {
		return false, err
	}
	e := t.Event(fleet.EventTaskQueued, now, "interrupted, it goes on when there is money: "+why)
	e.Status = string(t.Status)
	return true, tx.Append(e)
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
