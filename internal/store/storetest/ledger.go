package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
)

func reservation(budget, task string, begin time.Time, micros fleet.Micros) *fleet.LedgerEntry {
	return &fleet.LedgerEntry{Budget: budget, Begin: begin, TaskID: task, Kind: fleet.LedgerReserve, Reserved: fleet.Amount{Micros: micros, Tokens: 10}, At: noon, Text: "it starts"}
}

func settlement(budget, task string, begin time.Time, reserved, spent fleet.Micros) *fleet.LedgerEntry {
	return &fleet.LedgerEntry{
		Budget: budget, Begin: begin, TaskID: task, Kind: fleet.LedgerSettle, Reserved: fleet.Amount{Micros: -reserved, Tokens: -10},
		Spent: fleet.Amount{Micros: spent, Tokens: 7}, At: noon, Text: "it has ended ü",
	}
}

// dayTotal returns the total of the budget "day" in the window that begins at begin.
func dayTotal(tx fleet.ReadTx, begin time.Time) (fleet.LedgerTotal, error) {
	key := fleet.LedgerKey{Budget: "day", Begin: begin}
	l, err := tx.Ledger(fleet.LedgerFilter{Windows: []fleet.LedgerKey{key}})
	return l.Total(key), err
}

var ledgerCases = []testCase{
	{"a ledger has entries, totals of windows and totals of tasks", func(t *testing.T, s fleet.Store) {
		ever, tomorrow := time.Unix(0, 0).UTC(), noon.Add(24*time.Hour)
		refused := &fleet.LedgerEntry{Budget: "day", Begin: noon, Kind: fleet.LedgerRefuse, At: noon.Add(time.Second), Text: "too much"}
		written := []*fleet.LedgerEntry{
			reservation("day", "t1", noon, 500), reservation("day", "t2", noon, 300), reservation("all", "t1", ever, 500), reservation("day", "t1", noon, 50),
			refused, settlement("day", "t1", noon, 540, 70), reservation("day", "t3", tomorrow, 9),
		}
		written[5].Reserved = fleet.Amount{Micros: -550, Tokens: -20}
		for _, e := range written {
			insertRows(t, s, e)
		}
		get := func(f fleet.LedgerFilter) fleet.Ledger {
			return read(t, s, func(tx fleet.ReadTx) (fleet.Ledger, error) { return tx.Ledger(f) })
		}
		require.Empty(t, get(fleet.LedgerFilter{}))
		day, all, next, none := fleet.LedgerKey{Budget: "day", Begin: noon}, fleet.LedgerKey{Budget: "all", Begin: ever}, fleet.LedgerKey{Budget: "day", Begin: tomorrow}, fleet.LedgerKey{Budget: "none", Begin: noon}
		require.Equal(t, []fleet.LedgerTotal{
			{LedgerKey: all, Reserved: fleet.Amount{Micros: 500, Tokens: 10}},
			{LedgerKey: day, Reserved: fleet.Amount{Micros: 300, Tokens: 10}, Spent: fleet.Amount{Micros: 70, Tokens: 7}},
		}, get(fleet.LedgerFilter{Windows: []fleet.LedgerKey{day, all, none}}).Totals)
		require.Len(t, get(fleet.LedgerFilter{Windows: []fleet.LedgerKey{day, next}}).Totals, 2)
		require.Equal(t, []fleet.LedgerTotal{
			{LedgerKey: all, Reserved: fleet.Amount{Micros: 500, Tokens: 10}},
			{LedgerKey: day, Spent: fleet.Amount{Micros: 70, Tokens: 7}},
		}, get(fleet.LedgerFilter{TaskID: "t1"}).Totals)

		entries := get(fleet.LedgerFilter{Budget: "day", Limit: 10}).Entries
		require.Len(t, entries, 6)
		for i, want := range []*fleet.LedgerEntry{written[6], written[5], refused, written[3], written[1], written[0]} {
			got := *entries[i]
			got.Seq = 0
			require.Equal(t, *want, got)
		}
		require.Equal(t, entries[2:4], get(fleet.LedgerFilter{Budget: "day", Before: entries[1].Seq, Limit: 2}).Entries)
		require.Len(t, get(fleet.LedgerFilter{Budget: "day", Begin: noon, Limit: 10}).Entries, 5)
		require.Len(t, get(fleet.LedgerFilter{Budget: "day", Begin: tomorrow, Limit: 10}).Entries, 1)
	}},

	{"concurrent transactions cannot reserve the same money", func(t *testing.T, s fleet.Store) {
		both := []fleet.Store{s, reopen(t, s)}
		const limit, each = 1000, 150
		errs := runConcurrently(20, func(i int) error {
			return both[i%2].Update(t.Context(), func(tx fleet.Tx) error {
				total, err := dayTotal(tx, noon)
				switch {
				case err != nil:
					return err
				case total.Reserved.Micros+total.Spent.Micros+each > limit:
					return errTest
				}
				return tx.Insert(reservation("day", id("t", i), noon, each))
			})
		})
		requireTestErrors(t, errs, 20-limit/each)
		require.Equal(t, fleet.Micros(limit/each*each), read(t, s, func(tx fleet.ReadTx) (fleet.LedgerTotal, error) { return dayTotal(tx, noon) }).Reserved.Micros)
	}},

	{"the reserved amount of a window cannot be negative", func(t *testing.T, s fleet.Store) {
		insertRows(t, s, reservation("day", "t1", noon, 5))
		require.Error(t, tryInsert(t, s, settlement("day", "t1", noon, 6, 1)))
	}},
}
