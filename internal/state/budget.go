package state

import (
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// MinReservation is what a task without a limit reserves at least, or a quarter of the budget if that is less.
var MinReservation = fleet.Amount{Micros: 500_000, Tokens: 50_000}

// BudgetBalance is a budget with the amount that it has left in its current window.
type BudgetBalance struct {
	*fleet.Budget
	Key   fleet.LedgerKey
	End   time.Time // end of the window; zero if it never ends
	Total fleet.LedgerTotal
	Left  fleet.Amount
}

// BudgetBalances returns the budgets with what they have left. Inside Store.Update their windows are locked, so no other transaction can
// reserve the same amounts.
func BudgetBalances(tx fleet.ReadTx, budgets []*fleet.Budget, now time.Time) ([]BudgetBalance, error) {
	if len(budgets) == 0 {
		return nil, nil
	}
	balances, keys := make([]BudgetBalance, len(budgets)), make([]fleet.LedgerKey, len(budgets))
	for i, b := range budgets {
		begin, end := b.WindowAt(now)
		keys[i] = fleet.LedgerKey{Budget: b.Name, Begin: begin}
		balances[i] = BudgetBalance{Budget: b, Key: keys[i], End: end}
	}
	l, err := tx.Ledger(fleet.LedgerFilter{Windows: keys})
	for i := range balances {
		r := &balances[i]
		r.Total = l.Total(r.Key)
		r.Left = r.Budget.Left(r.Total)
	}
	return balances, err
}

// Scarce reports whether the budget has less than a fifth left.
func (b *BudgetBalance) Scarce() bool {
	return b.Limit > 0 && b.Left.Micros < b.Limit/5 || b.TokenLimit > 0 && b.Left.Tokens < b.TokenLimit/5
}

// BudgetsOf returns the budgets that apply to the agent's task.
func BudgetsOf(all []*fleet.Budget, a *fleet.Agent, t *fleet.Task) []*fleet.Budget {
	return slices.DeleteFunc(slices.Clone(all), func(b *fleet.Budget) bool { return !b.Applies(a, t) })
}

// Estimate is what a new task is expected to use, from similar tasks, and the limit that its project or role sets.
type Estimate struct {
	fleet.Amount
	Unpriced string       // why Fleet cannot know what such tasks cost; empty if it can
	Limit    fleet.Micros // maximum cost by the task's project or role, if its caller sets none; 0 if there is none
}

// WantedReservation returns what the budgets must reserve for the task. If the task, its project or its role has a limit, Fixed is
// set, and the cost is the limit without the amounts that the task has used and given to its children. Such a reservation is also
// needed without budgets. Otherwise the reservation is the estimate, but at least MinReservation, and at most the limits of the budgets.
func WantedReservation(budgets []*fleet.Budget, t *fleet.Task, e Estimate) fleet.Reservation {
	r := fleet.Reservation{Amount: e.Amount, Before: t.Used()}
	least := MinReservation
	money, tokens := false, false
	for _, b := range budgets {
		if b.Limit > 0 {
			money, r.Micros, least.Micros = true, min(r.Micros, b.Limit), min(least.Micros, max(b.Limit/4, 1))
		}
		if b.TokenLimit > 0 {
			tokens, r.Tokens, least.Tokens = true, min(r.Tokens, b.TokenLimit), min(least.Tokens, max(b.TokenLimit/4, 1))
		}
	}
	r.Micros, r.Tokens = max(r.Micros, least.Micros), max(r.Tokens, least.Tokens)
	if !money {
		r.Micros = 0
	}
	if !tokens {
		r.Tokens = 0
	}
	limit := e.Limit
	if usd := t.Options.MaxCostUSD; usd != nil {
		limit = fleet.MicrosOf(*usd)
	}
	if limit > 0 {
		r.Micros, r.Fixed = limit-r.Before.Micros-t.Delegation.GivenToChildren, true
	}
	r.Step = r.Amount
	return r
}

// BudgetObstacle is a reason why a task cannot start for now because of a budget.
type BudgetObstacle struct {
	Budget *fleet.Budget // nil: the task has used its own limit
	Text   string        // for people
	Until  time.Time     // when the window ends; zero if that does not help
	Never  bool          // only a change of the task or of the budget helps
	Left   fleet.Amount
}

// BudgetObstacles returns the reasons why the task cannot start: its own limit, or the budgets without enough left for it.
func BudgetObstacles(balances []BudgetBalance, t *fleet.Task, want fleet.Reservation, e Estimate) (all []BudgetObstacle) {
	if want.Fixed && want.Micros <= 0 {
		return []BudgetObstacle{{Never: true, Text: fmt.Sprintf("the task has used its own limit of %s", want.Before.Micros+want.Micros)}}
	}
	for _, r := range balances {
		o := BudgetObstacle{Budget: r.Budget, Until: r.End, Left: r.Left}
		switch {
		case r.Limit > 0 && e.Unpriced != "" && r.Unpriced == fleet.UnpricedRefuse:
			o.Never, o.Text = true, fmt.Sprintf("%s limits money, and %s: give the model a price, or let an admin set the budget with unpriced: allow", r.Budget, e.Unpriced)
		case r.Limit > 0 && want.Micros > r.Limit:
			o.Never, o.Text = true, fmt.Sprintf("the task may cost %s, and %s never has that much", want.Micros, r.Budget)
		case !r.Fits(r.Left, want.Amount):
			o.Text = fmt.Sprintf("%s has %s left, and the task reserves %s", r.Budget, r.AmountText(atLeastZero(r.Left)), r.AmountText(want.Amount))
		default:
			continue
		}
		if o.Never {
			o.Until = time.Time{}
		} else if !o.Until.IsZero() {
			o.Text += "; it begins anew at " + o.Until.UTC().Format("2006-01-02 15:04 MST")
		}
		all = append(all, o)
	}
	return all
}

func atLeastZero(a fleet.Amount) fleet.Amount {
	return fleet.Amount{Micros: max(a.Micros, 0), Tokens: max(a.Tokens, 0)}
}

// Reserve writes the reservation of a task that starts into the windows of the balances, and sets it in the task. The caller writes the
// task.
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
	return addReservations(tx, keys, t, fleet.LedgerReserve, want.Amount, now, "the task starts")
}

// addReservations adds the amount to the task's reservation in each of the windows. The amount may be negative.
func addReservations(tx fleet.Tx, windows []fleet.LedgerKey, t *fleet.Task, kind fleet.LedgerKind, more fleet.Amount, now time.Time, text string) error {
	for _, w := range windows {
		if err := tx.Insert(&fleet.LedgerEntry{Budget: w.Budget, Begin: w.Begin, TaskID: t.ID, Kind: kind, Reserved: more, At: now, Text: text}); err != nil {
			return err
		}
	}
	return nil
}

// ExtendOrStop checks what the running task has used. If that is the whole reservation, ExtendOrStop reserves more if the
// budgets have enough left. Otherwise it asks the task to stop. The caller writes the task.
func ExtendOrStop(tx fleet.Tx, t *fleet.Task, now time.Time) error {
	if !t.UsedUp() || !t.StopRequestedAt.IsZero() {
		return nil
	}
	open, balances, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	r := *t.Spending.Reserve // the task may be shared
	t.Spending.Reserve = &r
	over := t.Used().Minus(r.Before).Minus(r.Amount)
	more := atLeastZero(over)      // already used, so it counts in any case
	if r.Micros == 0 && !r.Fixed { // nothing limits money
		more.Micros = 0
	}
	if r.Tokens == 0 {
		more.Tokens = 0
	}
	room := r.Step.Plus(more)
	why := ""
	for _, b := range balances {
		if b.Limit > 0 && b.Left.Micros < room.Micros {
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
		if err := addReservations(tx, open, t, fleet.LedgerReserve, more, now, "the task needs more than it has reserved"); err != nil {
			return err
		}
		r.Amount = r.Plus(more)
		t.Spending.Reserve = &r
	}
	if !t.UsedUp() {
		return nil
	}
	if r.Fixed && over.Micros >= 0 {
		why = fmt.Sprintf("its own limit of %s is used up", r.Before.Micros+r.Step.Micros)
	}
	r.Breach = breachOf(balances)
	t.StopRequestedAt, t.StopReason = now, why
	return tx.Append(t.Event(fleet.EventTaskStopping, now, why))
}

// openWindows returns the windows in which the task has a reservation. It also returns the balances of the budgets that still exist,
// without End and Total.
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

// settleReservations replaces the reservations of a task whose run has ended with what the task has used.
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
			Spent: t.Used().Minus(r.Before), At: now, Text: text,
		}); err != nil {
			return err
		}
	}
	t.Spending.Reserve = nil
	return nil
}

// LimitReservation changes the reservation of a running task to one with a limit of its own. The caller writes the task. A task that
// does not run has no reservation, so nothing changes. The error is BUDGET_EXCEEDED if a budget has too little left.
func LimitReservation(tx fleet.Tx, t *fleet.Task, limit fleet.Micros, now time.Time) error {
	if !t.Running() {
		return nil
	}
	var r fleet.Reservation // of a task without budgets and limit
	if t.Spending.Reserve != nil {
		r = *t.Spending.Reserve
	}
	open, balances, err := openWindows(tx, t)
	if err != nil {
		return err
	}
	more := limit - r.Before.Micros - r.Micros
	for _, b := range balances {
		if b.Limit > 0 && more > b.Left.Micros {
			return fleet.Errorf(fleet.ReasonBudgetExceeded, "%s has %s left, and the task would reserve %s more", b.Budget, max(b.Left.Micros, 0), more).With("budget", b.Name).With("task_id", t.ID).
				Next("{show_budget} shows what the budget was spent on")
		}
	}
	if err := addReservations(tx, open, t, fleet.LedgerReserve, fleet.Amount{Micros: more}, now, "its limit was changed"); err != nil {
		return err
	}
	r.Micros, r.Fixed, r.Step.Micros = r.Micros+more, true, limit-r.Before.Micros
	t.Spending.Reserve = &r
	return nil
}
