package state

import (
	"time"

	"fleet/internal/fleet"
)

// FundChild transfers part of what the parent may spend to the child. The caller writes both tasks.
func FundChild(parent, child *fleet.Task, part fleet.Micros) {
	if part <= 0 {
		return
	}
	child.Delegation.Limit = part
	parent.Delegation.GivenToChildren += part
	if r := parent.Spending.Reserve; r != nil && r.Fixed {
		child.Delegation.ReservedTry = parent.Try + 1
		resizeReservation(parent, -part)
	}
}

// resizeReservation adds the amount, which may be negative, to the reservation in the task. It does not write to the ledger.
func resizeReservation(t *fleet.Task, more fleet.Micros) {
	r := *t.Spending.Reserve // a copy, because the old value may be shared
	r.Micros += more
	t.Spending.Reserve = &r
}

// fundingParent returns the parent of the pending task if the parent's reservation includes the task's limit, see IsFunded; nil otherwise.
func fundingParent(tx fleet.ReadTx, t *fleet.Task) (*fleet.Task, error) {
	if t.Delegation.ReservedTry == 0 {
		return nil, nil //nolint:nilnil // the parent has reserved nothing for it
	}
	parent, err := tx.Task(t.ParentID)
	if err != nil || parent == nil || !IsFunded(parent, t) {
		return nil, err
	}
	return parent, nil
}

// IsFunded reports whether the parent's reservation includes the limit of the pending task.
func IsFunded(parent, t *fleet.Task) bool {
	return t.Delegation.ReservedTry > 0 && isFunding(parent, t.Delegation.ReservedTry)
}

// isFunding reports whether the parent is running this try, counted from 1, and has a fixed reservation.
func isFunding(parent *fleet.Task, try int) bool {
	r := parent.Spending.Reserve
	return parent.Running() && r != nil && r.Fixed && parent.Try+1 == try
}

// keepFunds gives each pending task that t has delegated a reservation of its own, in place of the part of t's reservations
// that was meant for it. The run of t has ended, so t's reservations are settled next.
func keepFunds(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if r := t.Spending.Reserve; r == nil || !r.Fixed || t.Delegation.Children == 0 {
		return nil
	}
	open, _, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	found, err := tx.FindTasks(fleet.TaskFilter{ParentID: t.ID, Status: fleet.TaskPending}, fleet.TaskWindow{Limit: maxChildren})
	if err != nil {
		return err
	}
	for _, row := range found.Tasks {
		c, err := tx.Task(row.ID) // whole, as it is written
		if err != nil {
			return err
		}
		if c == nil || !IsFunded(t, c) {
			continue
		}
		amount := fleet.Amount{Micros: c.Delegation.Limit}
		if err := addReservations(tx, open, c, amount, now, "kept for it, since the task that delegated it waits"); err != nil {
			return err
		}
		c.Spending.Reserve, c.Delegation.ReservedTry = &fleet.Reservation{Amount: amount, UsedBefore: c.Used(), Fixed: true}, 0
		if err := tx.Update(c); err != nil {
			return err
		}
		if err := tx.Append(c.Event(fleet.EventTaskDelegated, now, "what it may cost is reserved for it, since the task that delegated it waits")); err != nil {
			return err
		}
	}
	return nil
}

// TakeFunds must be called for a task that starts, before the task makes its own reservations. It removes the task's limit from the
// parent's reservations, or removes the reservations that keepFunds has made for the task. The caller writes the task.
func TakeFunds(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if r := t.Spending.Reserve; r != nil {
		t.Spending.Reserve = nil
		return changeReservations(tx, t, -r.Micros, now, "replaced, because the task starts")
	}
	parent, err := fundingParent(tx, t)
	t.Delegation.ReservedTry = 0
	if err != nil || parent == nil {
		return err
	}
	t.Delegation.TakenTry = parent.Try + 1
	return changeReservations(tx, parent, -t.Delegation.Limit, now, "given to the delegated task "+t.ID)
}

// returnFunds gives the unused part of the task's limit back to the parent. If the parent still runs the try that has given it, the
// parent's reservation grows by that part, as far as the budgets have room. They may have too little, because a
// task that was put back into the queue has given up its reservation. The caller writes the parent.
func returnFunds(tx fleet.Tx, parent, t *fleet.Task, now time.Time) error {
	d := &t.Delegation
	if d.Limit == 0 {
		return nil
	}
	rest := d.Limit - t.Used().Micros - d.GivenToChildren
	parent.Delegation.GivenToChildren -= rest
	switch {
	case d.ReservedTry > 0 && isFunding(parent, d.ReservedTry):
		resizeReservation(parent, rest)
	case d.TakenTry > 0 && isFunding(parent, d.TakenTry):
		_, balances, err := openWindows(tx, parent)
		if err != nil {
			return err
		}
		for _, b := range balances {
			if b.Limit > 0 {
				rest = min(rest, max(b.Left.Micros, 0))
			}
		}
		resizeReservation(parent, rest)
		return changeReservations(tx, parent, rest, now, "given back by the delegated task "+t.ID)
	}
	return nil
}

// changeReservations adds the amount, which may be negative, to the task's reservation in each window where it has one.
func changeReservations(tx fleet.Tx, t *fleet.Task, more fleet.Micros, now time.Time, text string) error {
	open, _, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	return addReservations(tx, open, t, fleet.Amount{Micros: more}, now, text)
}
