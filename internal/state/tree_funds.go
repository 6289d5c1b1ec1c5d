package state

import (
	"time"

	"fleet/internal/fleet"
)

// Give lets the child cost a part of what its parent may cost. The caller writes both.
func Give(parent, child *fleet.Task, part fleet.Micros) {
	if part <= 0 {
		return
	}
	child.Delegation.Limit = part
	parent.Delegation.Given += part
	if r := parent.Spent.Reserve; r != nil && r.Fixed {
		child.Delegation.Backed = parent.Try + 1
		takeFrom(parent, part)
	}
}

// takeFrom makes what is reserved for the task smaller.
func takeFrom(t *fleet.Task, part fleet.Micros) {
	r := *t.Spent.Reserve // the task may be shared
	r.Micros -= part
	t.Spent.Reserve = &r
}

// funds returns the parent of the task if the try of the parent that began with the number is still running with a reservation; nil
// otherwise.
func funds(tx fleet.ReadTx, t *fleet.Task, try int) (*fleet.Task, error) {
	if try == 0 {
		return nil, nil //nolint:nilnil // the parent has reserved nothing for it
	}
	parent, err := tx.Task(t.ParentID)
	if err != nil || parent == nil || !funding(parent, try) {
		return nil, err
	}
	return parent, nil
}

// Funds reports whether the parent's reservation contains what the pending task may cost.
func Funds(parent, t *fleet.Task) bool {
	return t.Delegation.Backed > 0 && funding(parent, t.Delegation.Backed)
}

func funding(parent *fleet.Task, try int) bool {
	r := parent.Spent.Reserve
	return parent.Running() && r != nil && r.Fixed && parent.Try+1 == try
}

// TakeOver takes what the task may cost out of its parent's reservations, because the task starts and makes reservations itself.
func TakeOver(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	parent, err := funds(tx, t, t.Delegation.Backed)
	t.Delegation.Backed, t.Delegation.Taken = 0, 0
	if err != nil || parent == nil {
		return err
	}
	t.Delegation.Taken = parent.Try + 1
	return move(tx, parent, -t.Delegation.Limit, now, "given to the delegated task "+t.ID)
}

// giveBack returns what the task has not used to its parent. The caller writes the parent.
func giveBack(tx fleet.Tx, parent, t *fleet.Task, now time.Time) error {
	d := &t.Delegation
	if d.Limit == 0 {
		return nil
	}
	rest := d.Limit - t.Used().Micros - d.Given
	parent.Delegation.Given -= rest
	switch {
	case d.Backed > 0 && funding(parent, d.Backed):
		takeFrom(parent, -rest)
	case d.Taken > 0 && funding(parent, d.Taken):
		takeFrom(parent, -rest)
		return move(tx, parent, rest, now, "given back by the delegated task "+t.ID)
	}
	return nil
}

// move changes the reservations of the task in all its windows.
func move(tx fleet.Tx, t *fleet.Task, more fleet.Micros, now time.Time, text string) error {
	open, _, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	for _, o := range open {
		kind := fleet.LedgerReserve
		if more < 0 {
			kind = fleet.LedgerSettle
		}
		e := &fleet.LedgerEntry{Budget: o.Budget, Begin: o.Begin, TaskID: t.ID, Kind: kind, Reserved: fleet.Amount{Micros: more}, At: now, Text: text}
		if err := tx.Insert(e); err != nil {
			return err
		}
	}
	return nil
}
