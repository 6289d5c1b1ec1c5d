package record

import (
	"fmt"
	"math"
	"time"

	"fleet/internal/fleet"
)

const (
	ledgerSums    = `reserved_micros, reserved_tokens, spent_micros, spent_tokens`
	ledgerColumns = `budget, begins, task_id, kind, ` + ledgerSums + `, at, text`
	putTotal      = `INSERT INTO budget_totals AS t (budget, begins, ` + ledgerSums + `) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (budget, begins) DO UPDATE SET reserved_micros = t.reserved_micros + excluded.reserved_micros, reserved_tokens = t.reserved_tokens + excluded.reserved_tokens,
			spent_micros = t.spent_micros + excluded.spent_micros, spent_tokens = t.spent_tokens + excluded.spent_tokens`
	// addTotal is for an entry of a task that has made a reservation before. Its amounts may be negative, unlike those of putTotal.
	addTotal = `UPDATE budget_totals SET reserved_micros = reserved_micros + ?, reserved_tokens = reserved_tokens + ?,
			spent_micros = spent_micros + ?, spent_tokens = spent_tokens + ? WHERE budget = ? AND begins = ?`
	selectTotals = `SELECT budget, begins, ` + ledgerSums + ` FROM budget_totals WHERE (begins >= ? OR begins = ?) AND budget `
	taskTotals   = `SELECT budget, begins, CAST(sum(reserved_micros) AS bigint), CAST(sum(reserved_tokens) AS bigint), CAST(sum(spent_micros) AS bigint), CAST(sum(spent_tokens) AS bigint)
		FROM budget_ledger WHERE task_id <> '' AND task_id = ? GROUP BY budget, begins ORDER BY budget, begins`
	selectLedger = `SELECT n, ` + ledgerColumns + ` FROM budget_ledger WHERE budget = ? AND n < ?`
)

var insertLedger = insertStatement("budget_ledger", ledgerColumns)

// Ledger returns the matching parts of the ledger, see fleet.ReadTx.
func (t ReadTx) Ledger(f fleet.LedgerFilter) (l fleet.Ledger, err error) {
	if len(f.Windows) > 0 {
		if l.Totals, err = t.totals(f.Windows); err != nil {
			return l, err
		}
	}
	if f.TaskID != "" {
		totals, err := ReadLocked(t.DB, lockLedger, func(l fleet.LedgerTotal) string { return l.Budget }, func() ([]fleet.LedgerTotal, error) {
			return QueryAll(t.DB, scanTotal, taskTotals, f.TaskID)
		})
		if err != nil {
			return l, err
		}
		l.Totals = append(l.Totals, totals...)
	}
	if f.Budget == "" || f.Limit <= 0 {
		return l, nil
	}
	query, args := selectLedger, []any{f.Budget, f.Before}
	if f.Before <= 0 {
		args[1] = int64(math.MaxInt64)
	}
	if !f.Begin.IsZero() {
		query, args = query+` AND begins = ?`, append(args, f.Begin)
	}
	l.Entries, err = QueryAll(t.DB, scanLedgerEntry, query+` ORDER BY n DESC LIMIT ?`, append(args, f.Limit)...)
	return l, err
}

// foreverBegin is the beginning of windows that never end.
var foreverBegin = time.Unix(0, 0).UTC()

// totals returns the totals of the windows, and locks their budgets.
func (t ReadTx) totals(windows []fleet.LedgerKey) (out []fleet.LedgerTotal, err error) {
	var names TextList
	var since time.Time
	keys := map[fleet.LedgerKey]bool{}
	for _, w := range windows {
		keys[fleet.LedgerKey{Budget: w.Budget, Begin: w.Begin.UTC()}] = true
		names = append(names, w.Budget)
		if !w.Begin.Equal(foreverBegin) && (since.IsZero() || w.Begin.Before(since)) {
			since = w.Begin
		}
	}
	if since.IsZero() {
		since = foreverBegin
	}
	t.DB.Lock(lockLedger, names...)
	totals, err := QueryAll(t.DB, scanTotal, selectTotals+t.DB.Dialect().InList+` ORDER BY budget, begins`, since, foreverBegin, names)
	for _, total := range totals {
		if keys[total.LedgerKey] {
			out = append(out, total)
		}
	}
	return out, err
}

func (t Tx) insertLedgerEntry(e *fleet.LedgerEntry) error {
	t.DB.Lock(lockLedger, e.Budget)
	explain := func(err error) error { return fmt.Errorf("write the ledger of the budget %q: %w", e.Budget, err) }
	sums := []any{int64(e.Reserved.Micros), e.Reserved.Tokens, int64(e.Spent.Micros), e.Spent.Tokens}
	entry := append([]any{e.Budget, e.Begin, e.TaskID, string(e.Kind)}, sums...)
	if err := t.DB.Exec(explain, insertLedger, append(entry, e.At, e.Text)...); err != nil {
		return err
	}
	switch e.Kind {
	case fleet.LedgerReserve:
		return t.DB.Exec(explain, putTotal, append([]any{e.Budget, e.Begin}, sums...)...)
	case fleet.LedgerSettle:
		return t.DB.Exec(explain, addTotal, append(sums, e.Budget, e.Begin)...)
	case fleet.LedgerRefuse:
	}
	return nil
}

func scanTotal(row Scanner) (l fleet.LedgerTotal, err error) {
	return l, row.Scan(&l.Budget, (*TimeColumn)(&l.Begin), (*int64)(&l.Reserved.Micros), &l.Reserved.Tokens, (*int64)(&l.Spent.Micros), &l.Spent.Tokens)
}

func scanLedgerEntry(row Scanner) (*fleet.LedgerEntry, error) {
	e := &fleet.LedgerEntry{}
	return e, row.Scan(&e.Seq, &e.Budget, (*TimeColumn)(&e.Begin), &e.TaskID, (*string)(&e.Kind),
		(*int64)(&e.Reserved.Micros), &e.Reserved.Tokens, (*int64)(&e.Spent.Micros), &e.Spent.Tokens, (*TimeColumn)(&e.At), &e.Text)
}
