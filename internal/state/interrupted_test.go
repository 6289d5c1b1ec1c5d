package state_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/state"
	"fleet/internal/store/sqlite/sqlitetest"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// interruptedTree is a running task that is interrupted because its budget of $0.10 is used up, and a pending task that it has
// delegated and whose result it awaits.
type interruptedTree struct {
	t     *testing.T
	store fleet.Store
	agent *fleet.Agent
}

func newInterruptedTree(t *testing.T, onBreach fleet.BreachAction) interruptedTree {
	t.Helper()
	store, err := sqlitetest.Open(t.Context(), filepath.Join(t.TempDir(), "fleet.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	a := &fleet.Agent{UID: "u1", Name: "papi", Owner: "alice", Place: "fake", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: noon}
	x := interruptedTree{t, store, a}
	b := &fleet.Budget{Name: "all", Scope: fleet.BudgetFleet, Limit: 100_000, OnBreach: onBreach}
	parent := &fleet.Task{
		ID: "parent", AgentUID: a.UID, AgentName: a.Name, Owner: a.Owner, Description: "lead", Source: fleet.SourceHuman, Status: fleet.TaskRunning,
		CreatedAt: noon, Delegation: fleet.Delegation{Children: 1, AwaitedChildren: 1, Total: 1},
	}
	child := &fleet.Task{
		ID: "child", Owner: a.Owner, Project: "Setup", Description: "help", Source: fleet.SourceAgent, Status: fleet.TaskPending, ParentID: parent.ID, RootID: parent.ID,
		CreatedAt: noon, Delegation: fleet.Delegation{Depth: 1, Wake: fleet.WakeAll},
	}
	x.update(func(tx fleet.Tx) error {
		if err := errors.Join(
			tx.Insert(a), fleet.PutResource(tx, fleet.BudgetKind, b.Name, b), tx.Insert(parent), tx.Insert(child),
			tx.Put(parent.ID, &fleet.QueueEntry{By: a.Owner}), tx.Put(child.ID, &fleet.QueueEntry{By: a.Owner}),
		); err != nil {
			return err
		}
		balances, err := state.BudgetBalances(tx, []*fleet.Budget{b}, noon)
		if err != nil {
			return err
		}
		amount := fleet.Amount{Micros: b.Limit}
		if err := state.Reserve(tx, balances, parent, fleet.Reservation{Amount: amount, Step: amount}, noon); err != nil {
			return err
		}
		parent.CostUSD = b.Limit.USD()
		return errors.Join(state.ExtendOrStop(tx, parent, noon), tx.Update(parent))
	})
	require.Equal(t, onBreach, x.task("parent").Spending.Reserve.Breach)
	require.False(t, x.task("parent").StopRequestedAt.IsZero())
	return x
}

func (x interruptedTree) update(fn func(tx fleet.Tx) error) {
	x.t.Helper()
	require.NoError(x.t, x.store.Update(x.t.Context(), fn))
}

func (x interruptedTree) task(id string) (t *fleet.Task) {
	x.t.Helper()
	require.NoError(x.t, x.store.View(x.t.Context(), func(tx fleet.ReadTx) (err error) {
		t, err = tx.Task(id)
		return err
	}))
	return t
}

// endChild stops the pending child, so that its result is delivered.
func (x interruptedTree) endChild() {
	x.t.Helper()
	x.update(func(tx fleet.Tx) error {
		c, err := tx.Task("child")
		require.NoError(x.t, err)
		return state.StopPending(tx, c, "stopped by alice", noon)
	})
}

// TestResultOfInterruptedParent checks that a parent that a budget interrupts gets the result of its child if the parent goes on later.
func TestResultOfInterruptedParent(t *testing.T) {
	t.Parallel()
	for breach, delivered := range map[fleet.BreachAction]bool{fleet.BreachHold: true, fleet.BreachAsk: true, fleet.BreachStop: false} {
		x := newInterruptedTree(t, breach)
		x.endChild()
		if !delivered {
			require.False(t, x.task("parent").HasMessages, breach)
			continue
		}
		require.Zero(t, x.task("parent").Delegation.AwaitedChildren, breach)
		require.True(t, x.task("parent").HasMessages, breach)
		x.update(func(tx fleet.Tx) error {
			p, err := tx.Task("parent")
			require.NoError(t, err)
			held, err := state.HoldForBudget(tx, x.agent, p, fleet.Outcome{Status: fleet.TaskStopped}, noon)
			require.True(t, held, breach)
			return err
		})
		require.Equal(t, fleet.TaskPending, x.task("parent").Status, breach)
	}
}

// TestAwaitResultsOfInterruptedParent checks that a task whose turn is over waits for its child, even if a budget interrupts it in the
// last response of the turn. If the budget stops the task, it does not wait.
func TestAwaitResultsOfInterruptedParent(t *testing.T) {
	t.Parallel()
	for breach, want := range map[fleet.BreachAction]bool{fleet.BreachHold: true, fleet.BreachAsk: true, fleet.BreachStop: false} {
		x := newInterruptedTree(t, breach)
		x.update(func(tx fleet.Tx) error {
			p, err := tx.Task("parent")
			require.NoError(t, err)
			waits, err := state.AwaitResults(tx, x.agent, p, fleet.Outcome{Status: fleet.TaskCompleted}, noon)
			require.Equal(t, want, waits, breach)
			return err
		})
		p := x.task("parent")
		require.Equal(t, want, p.Delegation.Waits, breach)
		require.Equal(t, want, p.Status == fleet.TaskPending && p.StopRequestedAt.IsZero(), breach)
		require.Equal(t, fleet.TaskPending, x.task("child").Status, breach)
	}
}

// TestStopOfInterruptedTask checks that a stop of a task that a budget interrupts ends the task and what it has delegated, so that it
// does not go on later. If the budget stops the task itself, the reason stays.
func TestStopOfInterruptedTask(t *testing.T) {
	t.Parallel()
	for breach, want := range map[fleet.BreachAction]bool{fleet.BreachHold: true, fleet.BreachAsk: true, fleet.BreachStop: false} {
		x := newInterruptedTree(t, breach)
		x.update(func(tx fleet.Tx) error {
			p, err := tx.Task("parent")
			require.NoError(t, err)
			return state.RequestStop(tx, p, "stopped by alice", "stop requested by alice", noon.Add(time.Second))
		})
		p := x.task("parent")
		require.Equal(t, want, p.StopReason == "stopped by alice" && p.StopRequestedAt.Equal(noon.Add(time.Second)), breach)
		require.Equal(t, want, x.task("child").Status == fleet.TaskStopped, breach)
		x.update(func(tx fleet.Tx) error {
			held, err := state.HoldForBudget(tx, x.agent, p, fleet.Outcome{Status: fleet.TaskStopped}, noon)
			require.False(t, held, breach)
			return errors.Join(err, state.EndTask(tx, x.agent, p, fleet.Outcome{Status: fleet.TaskStopped}, noon, nil))
		})
		require.Equal(t, want, x.task("parent").Status == fleet.TaskStopped, breach)
	}
}

// TestLimitIncludesChildren checks that the limit of a task includes what it has given to its children when the task starts, when its
// limit changes, and in the text and the question about a limit that is used up.
func TestLimitIncludesChildren(t *testing.T) {
	t.Parallel()
	x := newInterruptedTree(t, fleet.BreachAsk)
	x.update(func(tx fleet.Tx) error {
		p, err := tx.Task("parent")
		require.NoError(t, err)
		b, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, "all")
		require.NoError(t, err)
		b.Limit = 2_000_000
		require.NoError(t, fleet.PutResource(tx, fleet.BudgetKind, b.Name, b))
		p.Delegation.GivenToChildren = 600_000
		limit := 1.0
		p.Options.MaxCostUSD = &limit
		want := state.WantedReservation([]*fleet.Budget{b}, p, state.Estimate{})
		require.Equal(t, fleet.Micros(300_000), want.Micros, "it has used $0.10")

		p.StopRequestedAt, p.StopReason = time.Time{}, ""
		require.NoError(t, state.LimitReservation(tx, p, 1_000_000, noon))
		require.Equal(t, fleet.Micros(400_000), p.Spending.Reserve.Micros)
		l, err := tx.Ledger(fleet.LedgerFilter{TaskID: p.ID})
		require.NoError(t, err)
		require.Equal(t, fleet.Micros(400_000), l.Totals[0].Reserved.Micros)

		for _, r := range []*fleet.Reservation{p.Spending.Reserve, {Amount: want.Amount, Step: want.Step, UsedBefore: want.UsedBefore, Fixed: true}} {
			p.Spending.Reserve, p.CostUSD, p.StopRequestedAt = r, 0.4, time.Time{}
			require.NoError(t, state.ExtendOrStop(tx, p, noon))
			require.Equal(t, "its own limit of $1.00 is used up", p.StopReason)
		}
		held, err := state.HoldForBudget(tx, x.agent, p, fleet.Outcome{Status: fleet.TaskStopped}, noon)
		require.True(t, held)
		require.NoError(t, err)
		obstacles := state.BudgetObstacles(nil, p, state.WantedReservation(nil, p, state.Estimate{}), state.Estimate{})
		require.Equal(t, "the task has used its own limit of $1.00", obstacles[0].Text)
		q, _, err := tx.Questions(fleet.QuestionFilter{TaskID: p.ID}, 1, 0)
		require.Equal(t, []string{"raise to $1.90", "stop"}, q[0].Options)
		return err
	})
}

// TestFundsOfRequeuedChild checks that the unused part of a child's limit goes back to its running parent, even if the child has run
// and waits in the queue again. The parent gets only what the budget has left.
func TestFundsOfRequeuedChild(t *testing.T) {
	t.Parallel()
	for limit, reserved := range map[fleet.Micros]fleet.Micros{2_000_000: 900_000, 800_000: 700_000} {
		x := newInterruptedTree(t, fleet.BreachAsk)
		x.update(func(tx fleet.Tx) error {
			p, err := tx.Task("parent")
			require.NoError(t, err)
			c, err := tx.Task("child")
			require.NoError(t, err)
			b, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, "all")
			require.NoError(t, err)
			setLimit := func(limit fleet.Micros) {
				b.Limit = limit
				require.NoError(t, fleet.PutResource(tx, fleet.BudgetKind, b.Name, b))
			}
			setLimit(1_000_000)
			p.StopRequestedAt, p.CostUSD = time.Time{}, 0
			require.NoError(t, state.LimitReservation(tx, p, 1_000_000, noon))
			state.FundChild(p, c, 400_000)
			require.NoError(t, tx.Update(p))

			a := &fleet.Agent{UID: "u2", Name: "helper", Owner: "alice", Place: "fake", State: fleet.StateRunning, Desired: fleet.DesiredRunning, CreatedAt: noon}
			require.NoError(t, tx.Insert(a))
			require.NoError(t, state.TakeFunds(tx, c, noon))
			c.AgentUID, c.AgentName, c.Status = a.UID, a.Name, fleet.TaskRunning
			balances, err := state.BudgetBalances(tx, []*fleet.Budget{b}, noon)
			require.NoError(t, err)
			require.NoError(t, state.Reserve(tx, balances, c, state.WantedReservation([]*fleet.Budget{b}, c, state.Estimate{Limit: c.Delegation.Limit}), noon))
			c.CostUSD = 0.1
			held, err := state.HoldForBudget(tx, a, c, fleet.Outcome{Status: fleet.TaskFailed, ReasonCode: fleet.CodeBudget}, noon)
			require.NoError(t, err)
			require.True(t, held)

			setLimit(limit)
			return nil
		})
		x.endChild()
		p := x.task("parent")
		require.Equal(t, reserved, p.Spending.Reserve.Micros)
		require.Equal(t, fleet.Micros(100_000), p.Delegation.GivenToChildren)
		require.NoError(t, x.store.View(t.Context(), func(tx fleet.ReadTx) error {
			l, err := tx.Ledger(fleet.LedgerFilter{TaskID: p.ID})
			require.Equal(t, reserved, l.Totals[0].Reserved.Micros)
			return err
		}))
	}
}
