package state

import (
	"fmt"
	"time"

	"fleet/internal/fleet"
)

// MinReservation is the least that a task without a limit reserves. For a small budget, a quarter of the budget's limit is enough.
var MinReservation = fleet.Amount{Micros: 500_000, Tokens: 50_000}

// Estimate has the amount that a new task will probably use, judged by similar tasks, and the limit of its project or role.
type Estimate struct {
	fleet.Amount
	UnpricedReason string       // why Fleet cannot know what such tasks cost; empty if it can
	Limit          fleet.Micros // maximum cost that the task's project or role sets for tasks without their own; 0 if there is none
}

// WantedReservation returns the reservation that the task needs in the budgets. If the task, its project or its role has a limit,
// Fixed is set, and the cost is the limit without the amounts that the task has used and given to its children. Such a reservation
// is also needed without budgets. Otherwise the reservation is the estimate, but at least MinReservation, and at most the limits of
// the budgets.
func WantedReservation(budgets []*fleet.Budget, t *fleet.Task, e Estimate) fleet.Reservation {
	r := fleet.Reservation{Amount: e.Amount, UsedBefore: t.Used()}
	least := MinReservation
	limitsMoney, limitsTokens := false, false
	for _, b := range budgets {
		if b.Limit > 0 {
			limitsMoney, r.Micros, least.Micros = true, min(r.Micros, b.Limit), min(least.Micros, max(b.Limit/4, 1))
		}
		if b.TokenLimit > 0 {
			limitsTokens, r.Tokens, least.Tokens = true, min(r.Tokens, b.TokenLimit), min(least.Tokens, max(b.TokenLimit/4, 1))
		}
	}
	r.Micros, r.Tokens = max(r.Micros, least.Micros), max(r.Tokens, least.Tokens)
	if !limitsMoney {
		r.Micros = 0
	}
	if !limitsTokens {
		r.Tokens = 0
	}
	limit := e.Limit
	if usd := t.Options.MaxCostUSD; usd != nil {
		limit = fleet.MicrosOf(*usd)
	}
	r.Step = r.Amount
	if limit > 0 {
		r.Step.Micros = limit - r.UsedBefore.Micros
		r.Micros, r.Fixed = r.Step.Micros-t.Delegation.GivenToChildren, true
	}
	return r
}

// Reserve records the reservation of a task that starts in the windows of the balances, and sets it in the task. The caller writes
// the task.
func Reserve(tx fleet.Tx, balances []BudgetBalance, t *fleet.Task, want fleet.Reservation, now time.Time) error {
	if len(balances) == 0 && !want.Fixed {
		t.Spending.Reserve = nil
		return nil
	}
	keys := make([]fleet.LedgerKey, len(balances))
	for i, r := range balances {
		keys[i] = r.Key
	}
	t.Spending.Reserve = &want
	return addReservations(tx, keys, t, want.Amount, now, "the task starts")
}

// addReservations adds the amount to the task's reservation in each of the windows. The money may be negative: the task gives it back.
func addReservations(tx fleet.Tx, windows []fleet.LedgerKey, t *fleet.Task, more fleet.Amount, now time.Time, text string) error {
	kind := fleet.LedgerReserve
	if more.Micros < 0 {
		kind = fleet.LedgerSettle
	}
	for _, w := range windows {
		if err := tx.Insert(&fleet.LedgerEntry{Budget: w.Budget, Begin: w.Begin, TaskID: t.ID, Kind: kind, Reserved: more, At: now, Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// ExtendOrStop does nothing unless the running task has used up its reservation. Then it reserves more if the budgets have enough
// left, and otherwise requests the stop of the task. The caller writes the task.
func ExtendOrStop(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if !t.UsedUp() || !t.StopRequestedAt.IsZero() {
		return nil
	}
	open, balances, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	r := *t.Spending.Reserve // a copy, because the old value may be shared
	t.Spending.Reserve = &r
	over := t.Used().Minus(r.UsedBefore).Minus(r.Amount)
	more := atLeastZero(over)      // already used, so it is recorded in any case
	if r.Micros == 0 && !r.Fixed { // nothing limits money
		more.Micros = 0
	}
	if r.Tokens == 0 {
		more.Tokens = 0
	}
	room := r.Step.Plus(more)
	why := ""
	for _, b := range balances {
		if b.Limit > 0 && !r.Fixed && b.Left.Micros < room.Micros {
			room.Micros, why = b.Left.Micros, b.String()+" is used up"
		}
		if b.TokenLimit > 0 && b.Left.Tokens < room.Tokens {
			room.Tokens, why = b.Left.Tokens, b.String()+" is used up"
		}
	}
	if r.Micros > 0 && over.Micros >= 0 && !r.Fixed {
		more.Micros = max(more.Micros, room.Micros)
	}
	if r.Tokens > 0 && over.Tokens >= 0 {
		more.Tokens = max(more.Tokens, room.Tokens)
	}
	if more != (fleet.Amount{}) {
		if err := addReservations(tx, open, t, more, now, "the task needs more than it has reserved"); err != nil {
			return err
		}
		r.Amount = r.Plus(more)
		t.Spending.Reserve = &r
	}
	if !t.UsedUp() {
		return nil
	}
	if r.Fixed && over.Micros >= 0 {
		why = fmt.Sprintf("its own limit of %s is used up", r.UsedBefore.Micros+r.Step.Micros)
	}
	r.Breach = breachOf(balances)
	t.StopRequestedAt, t.StopReason = now, why
	return tx.Append(t.Event(fleet.EventTaskStopping, now, why))
}

// openWindows returns the windows in which the task has a reservation. It also returns the balances of those budgets that still
// exist, without End and Total.
func openWindows(tx fleet.Tx, t *fleet.Task) (open []fleet.LedgerKey, balances []BudgetBalance, err error) {
	l, err := tx.Ledger(fleet.LedgerFilter{TaskID: t.ID})
	if err != nil {
		return nil, nil, err
	}
	var keys []fleet.LedgerKey
	for _, o := range l.Totals {
		if o.Reserved == (fleet.Amount{}) {
			continue
		}
		open = append(open, o.LedgerKey)
		b, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, o.Budget)
		if err != nil {
			return nil, nil, err
		}
		if b != nil {
			keys = append(keys, o.LedgerKey)
			balances = append(balances, BudgetBalance{Budget: b, Key: o.LedgerKey})
		}
	}
	if len(keys) == 0 {
		return open, nil, nil
	}
	l, err = tx.Ledger(fleet.LedgerFilter{Windows: keys})
	for i := range balances {
		balances[i].Left = balances[i].Budget.Left(l.Total(balances[i].Key))
	}
	return open, balances, err
}

// settleReservations replaces the reservations of a task whose run has ended with the amount that the run has used.
func settleReservations(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	r := t.Spending.Reserve
	if r == nil {
		return nil
	}
	l, err := tx.Ledger(fleet.LedgerFilter{TaskID: t.ID})
	if err != nil {
		return err
	}
	text := "the task is " + string(t.Status)
	if t.Active() {
		text = "the task waits"
	}
	for _, o := range l.Totals {
		if o.Reserved == (fleet.Amount{}) {
			continue
		}
		if err := tx.Insert(&fleet.LedgerEntry{
			Budget: o.Budget, Begin: o.Begin, TaskID: t.ID, Kind: fleet.LedgerSettle, Reserved: fleet.Amount{}.Minus(o.Reserved),
			Spent: t.Used().Minus(r.UsedBefore), At: now, Text: text,
		}); err != nil {
			return err
		}
	}
	t.Spending.Reserve = nil
	return nil
}

// LimitReservation gives a running task a limit of its own, which includes the amounts that it has given to its children, and changes
// its reservation accordingly. The caller writes the task. It does nothing if the task does not run. The error is
// BUDGET_EXCEEDED if a budget has too little left.
func LimitReservation(tx fleet.Tx, t *fleet.Task, limit fleet.Micros, now time.Time) error {
	if !t.Running() {
		return nil
	}
	var r fleet.Reservation // zero for a task without budgets and limit
	if t.Spending.Reserve != nil {
		r = *t.Spending.Reserve
	}
	open, balances, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	more := limit - r.UsedBefore.Micros - t.Delegation.GivenToChildren - r.Micros
	for _, b := range balances {
		if b.Limit > 0 && more > max(b.Left.Micros, 0) {
			return fleet.Errorf(fleet.ReasonBudgetExceeded, "%s has %s left, and the task would reserve %s more", b.Budget, max(b.Left.Micros, 0), more).With("budget", b.Name).With("task_id", t.ID).
				Next("{show_budget} shows what the budget was spent on")
		}
	}
	if err := addReservations(tx, open, t, fleet.Amount{Micros: more}, now, "its limit was changed"); err != nil {
		return err
	}
	r.Micros, r.Fixed, r.Step.Micros = r.Micros+more, true, limit-r.UsedBefore.Micros
	t.Spending.Reserve = &r
	return nil
}
