package fleet

import "time"

// LedgerKind is the kind of an entry of a budget's ledger.
type LedgerKind string

// The kinds of entries.
const (
	LedgerReserve LedgerKind = "reserve" // a task starts, or needs more than it has reserved
	LedgerSettle  LedgerKind = "settle"  // a task has ended, and its usage replaces its reservations; or a task gives back reservations
	LedgerRefuse  LedgerKind = "refuse"  // a task was not started
)

// LedgerEntry is a change of a budget in one window. The totals of the window are the sums of its entries, so the entries explain them.
type LedgerEntry struct {
	Seq      int64 // the order of the entries; set by the store
	Budget   string
	Begin    time.Time // of the window
	TaskID   string    // empty if a task was refused before it had an id
	Kind     LedgerKind
	Reserved Amount // what it adds to the reservations of the window
	Spent    Amount // what it adds to what the window has spent
	At       time.Time
	Text     string // for people
}

// LedgerKey names a window of a budget.
type LedgerKey struct {
	Budget string
	Begin  time.Time
}

// LedgerTotal is the sum of entries of a window.
type LedgerTotal struct {
	LedgerKey
	Reserved, Spent Amount
}

// Ledger is the part of the ledger that a LedgerFilter has selected.
type Ledger struct {
	Totals  []LedgerTotal
	Entries []*LedgerEntry
}

// LedgerFilter selects parts of the ledger. The zero value selects nothing.
type LedgerFilter struct {
	Windows []LedgerKey // the totals of these windows; windows without entries are left out
	TaskID  string      // the totals of the entries of this task

	Budget string    // the entries of this budget, newest first
	Begin  time.Time // only those of this window; zero for all
	Before int64     // only those with a lower Seq; 0 for all
	Limit  int       // at most this many; 0: none
}

// Total returns the total of the window, which is zero if the ledger does not have it.
func (l *Ledger) Total(k LedgerKey) LedgerTotal {
	for _, t := range l.Totals {
		if t.Budget == k.Budget && t.Begin.Equal(k.Begin) {
			return t
		}
	}
	return LedgerTotal{LedgerKey: k}
}

// Left returns the amount that the budget has left in a window with the total. It may be negative. Its money or tokens have no
// meaning if the budget has no such limit.
func (b *Budget) Left(t LedgerTotal) Amount {
	return Amount{b.Limit, b.TokenLimit}.Minus(t.Reserved).Minus(t.Spent)
}

// Fits reports whether the needed amount is at most left, as far as the budget limits money and tokens.
func (b *Budget) Fits(left, needed Amount) bool {
	return (b.Limit == 0 || needed.Micros <= left.Micros) && (b.TokenLimit == 0 || needed.Tokens <= left.Tokens)
}

// AmountText returns the part of the amount that the budget limits, for people.
func (b *Budget) AmountText(a Amount) string {
	switch {
	case b.Limit > 0 && b.TokenLimit > 0:
		return a.Micros.String() + " and " + TokensText(a.Tokens)
	case b.Limit > 0:
		return a.Micros.String()
	}
	return TokensText(a.Tokens)
}
