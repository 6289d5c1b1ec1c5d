package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/state"
)

// reserveCost reserves the maximum cost of the agent's task in all budgets that apply to the task. The error is
// BUDGET_EXCEEDED if one of them has too little left, and CREDENTIAL_USED_UP if the agent's credential cannot be used now. Each
// function that starts a task calls reserveCost, in the transaction that sets the task to running, before the task is written.
func (s *Service) reserveCost(tx fleet.Tx, a *fleet.Agent, t *fleet.Task) error {
	if err := checkCredential(tx, a, s.now()); err != nil {
		return err
	}
	if err := state.TakeFunds(tx, t, s.now()); err != nil {
		return err
	}
	balances, reservation, obstacles, err := s.budgetObstacles(tx, a, t)
	switch {
	case err != nil:
		return err
	case len(obstacles) > 0:
		return errBudgetExceeded(obstacles[0], s.now())
	}
	return state.Reserve(tx, balances, t, reservation, s.now())
}

// checkAffordable returns BUDGET_EXCEEDED if the task of the agent can never start because of a budget or its own limit.
func (s *Service) checkAffordable(tx fleet.ReadTx, a *fleet.Agent, t *fleet.Task) error {
	_, _, obstacles, err := s.budgetObstacles(tx, a, t)
	if i := slices.IndexFunc(obstacles, func(o state.BudgetObstacle) bool { return o.Permanent }); err == nil && i >= 0 {
		return errBudgetExceeded(obstacles[i], s.now())
	}
	return err
}

// budgetObstacles returns the balances of the task's budgets, what they must reserve for the task, and the reasons why they cannot.
func (s *Service) budgetObstacles(tx fleet.ReadTx, a *fleet.Agent, t *fleet.Task) (balances []state.BudgetBalance, reservation fleet.Reservation, obstacles []state.BudgetObstacle, err error) {
	budgets, err := fleet.ReadResources[fleet.Budget](tx, fleet.ResourceFilter{Kind: fleet.BudgetKind})
	if err != nil {
		return nil, reservation, nil, err
	}
	e := state.Estimate{Limit: s.maxCost(a, t)}
	if budgets = state.BudgetsOf(budgets, a, t); len(budgets) > 0 {
		estimate, err := s.estimate(tx, a)
		if err != nil {
			return nil, reservation, nil, err
		}
		e.Amount, e.UnpricedReason = estimate.Amount, estimate.unpricedReason(t)
	}
	if balances, err = state.BudgetBalances(tx, budgets, s.now()); err != nil {
		return nil, reservation, nil, err
	}
	reservation = state.WantedReservation(budgets, t, e)
	return balances, reservation, state.BudgetObstacles(balances, t, reservation, e), nil
}

// errBudgetExceeded returns the error for the obstacle.
func errBudgetExceeded(o state.BudgetObstacle, now time.Time) error {
	if o.Budget == nil {
		return fleet.Errorf(fleet.ReasonBudgetExceeded, "%s", o.Text).Next("{raise_task_budget} raises it")
	}
	e := fleet.Errorf(fleet.ReasonBudgetExceeded, "%s", o.Text).With("budget", o.Budget.Name).
		Next("{show_budget} shows what the budget was spent on")
	if o.Budget.Limit > 0 {
		e = e.With("left_usd", fmt.Sprint(max(o.Left.Micros, 0).USD()))
	}
	if o.Budget.TokenLimit > 0 {
		e = e.With("left_tokens", fmt.Sprint(max(o.Left.Tokens, 0)))
	}
	if o.Until.IsZero() {
		return e
	}
	return e.With("window_ends", o.Until.UTC().Format(time.RFC3339)).Next("{queue_task} queues a task that waits until then").After(o.Until.Sub(now))
}

// recordRefusal adds an entry to the ledger of the budget because of which a call was refused, if refusal is such an error. It only
// logs a failure.
func (s *Service) recordRefusal(ctx context.Context, refusal error) {
	e, ok := errors.AsType[*fleet.Error](refusal)
	if !ok || e.Reason != fleet.ReasonBudgetExceeded {
		return
	}
	name := e.Metadata["budget"]
	err := s.store.Update(ctx, func(tx fleet.Tx) error {
		b, err := fleet.ReadResource[fleet.Budget](tx, fleet.BudgetKind, name)
		if err != nil || b == nil {
			return err
		}
		begin, _ := b.WindowAt(s.now())
		return tx.Insert(&fleet.LedgerEntry{Budget: name, Begin: begin, Kind: fleet.LedgerRefuse, At: s.now(), Text: fleet.PublicMessage(refusal)})
	})
	if err != nil {
		s.log.WarnContext(ctx, "a refusal is not in the ledger", slog.String("budget", name), slog.Any("error", err))
	}
}

// maxCost returns the maximum cost of the agent's task if its caller sets none: that of the agent's project and role, within the
// limit of its delegation. It returns 0 if there is no limit. Tasks of terminals have no limit, so that no person is interrupted.
func (s *Service) maxCost(a *fleet.Agent, t *fleet.Task) fleet.Micros {
	if t.Options.Attached != nil {
		return 0
	}
	return t.Delegation.CapLimit(s.places.Of(a).MaxCost(a.Project, a.Role))
}
