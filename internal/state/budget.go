package state

import (
	"fmt"
	"slices"
	"time"

	"fleet/internal/fleet"
)

// BudgetBalance is a budget with the amount that it has left in its current window.
type BudgetBalance struct {
	*fleet.Budget
	Key   fleet.LedgerKey // of the current window
	End   time.Time       // end of the window; zero if it never ends
	Total fleet.LedgerTotal
	Left  fleet.Amount
}

// BudgetBalances returns the balances of the budgets at the time now. Inside Store.Update their windows are locked, so that no other
// transaction can reserve the same amounts.
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

// Scarce reports whether less than a fifth of the budget's money or tokens is left.
func (b *BudgetBalance) Scarce() bool {
	return b.Limit > 0 && b.Left.Micros < b.Limit/5 || b.TokenLimit > 0 && b.Left.Tokens < b.TokenLimit/5
}

// BudgetsOf returns those elements of all that apply to the agent's task.
func BudgetsOf(all []*fleet.Budget, a *fleet.Agent, t *fleet.Task) []*fleet.Budget {
	return slices.DeleteFunc(slices.Clone(all), func(b *fleet.Budget) bool { return !b.Applies(a, t) })
}

// BudgetObstacle is a reason why a task cannot start because of a budget.
type BudgetObstacle struct {
	Budget    *fleet.Budget // nil: the task has used its own limit
	Text      string        // for people
	Until     time.Time     // when the window ends; zero if it never ends, or if its end does not help
	Permanent bool          // only a change of the task or of the budget helps
	Left      fleet.Amount
}

// BudgetObstacles returns the reasons why the task cannot start: its own limit, or each budget that has too little left or refuses it.
func BudgetObstacles(balances []BudgetBalance, t *fleet.Task, want fleet.Reservation, e Estimate) (all []BudgetObstacle) {
	if want.Fixed && want.Micros <= 0 {
		return []BudgetObstacle{{Permanent: true, Text: fmt.Sprintf("the task has used its own limit of %s", want.UsedBefore.Micros+want.Step.Micros)}}
	}
	for _, r := range balances {
		o := BudgetObstacle{Budget: r.Budget, Until: r.End, Left: r.Left}
		switch {
		case r.Limit > 0 && e.UnpricedReason != "" && r.Unpriced == fleet.UnpricedRefuse:
			o.Permanent, o.Text = true, fmt.Sprintf("%s limits money, and %s: give the model a price, or let an admin set the budget with unpriced: allow", r.Budget, e.UnpricedReason)
		case r.Limit > 0 && want.Micros > r.Limit:
			o.Permanent, o.Text = true, fmt.Sprintf("the task may cost %s, and %s never has that much", want.Micros, r.Budget)
		case !r.Fits(r.Left, want.Amount):
			o.Text = fmt.Sprintf("%s has %s left, and the task reserves %s", r.Budget, r.AmountText(atLeastZero(r.Left)), r.AmountText(want.Amount))
		default:
			continue
		}
		if o.Permanent {
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
