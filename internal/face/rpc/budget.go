package rpc

import (
	"context"
	"math"
	"strconv"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/fleet"
	"fleet/internal/service"
)

// SetBudget adds a budget, or replaces the one with the same name.
func (f *Fleet) SetBudget(ctx context.Context, r *fleetv1.SetBudgetRequest) (*fleetv1.SetBudgetResponse, error) {
	b := fleet.Budget{
		Name: r.GetName(), Scope: fleet.BudgetScope(r.GetScope()), Value: r.GetValue(), Window: fleet.BudgetWindow(r.GetWindow()), TimeZone: r.GetTimeZone(),
		OnBreach: fleet.BreachAction(r.GetOnBreach()), Unpriced: fleet.UnpricedPolicy(r.GetUnpriced()),
	}
	if r.LimitUsd != nil {
		usd := r.GetLimitUsd()
		if !(usd >= 1e-6 && usd <= fleet.MaxTaskCostUSD) { // also refuses NaN
			return nil, fleet.InvalidField("limit_usd", "limit_usd is %g: give more than 0 and at most %d", usd, fleet.MaxTaskCostUSD)
		}
		b.Limit = fleet.MicrosOf(usd)
	}
	if r.LimitTokens != nil {
		n := r.GetLimitTokens()
		if !(n >= 1 && n <= 1e15) || n != math.Trunc(n) {
			return nil, fleet.InvalidField("limit_tokens", "limit_tokens is %g: give a whole number from 1 to 1e15", n)
		}
		b.TokenLimit = int64(n)
	}
	balance, err := f.svc.SetBudget(ctx, b, r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.SetBudgetResponse{Budget: budgetOf(*balance), Message: "Budget set successfully"}, nil
}

// DeleteBudget deletes the budget with the request's name.
func (f *Fleet) DeleteBudget(ctx context.Context, r *fleetv1.DeleteBudgetRequest) (*fleetv1.DeleteBudgetResponse, error) {
	if err := f.svc.DeleteBudget(ctx, r.GetName(), r.GetRequestId()); err != nil {
		return nil, err
	}
	return &fleetv1.DeleteBudgetResponse{Message: "Budget deleted successfully"}, nil
}

// ListBudgets lists the budgets that concern the caller.
func (f *Fleet) ListBudgets(ctx context.Context, r *fleetv1.ListBudgetsRequest) (*fleetv1.ListBudgetsResponse, error) {
	all, err := f.svc.ListBudgets(ctx)
	if err != nil {
		return nil, err
	}
	part, next, err := fleet.Paginate(all, cursorPageIn(r.GetCursor(), r.Limit), 0)
	if err != nil {
		return nil, err
	}
	return &fleetv1.ListBudgetsResponse{Budgets: listOf(part, budgetOf), TotalCount: int32Of(len(all)), NextCursor: optional(next)}, nil
}

// ShowBudget shows a budget with its ledger.
func (f *Fleet) ShowBudget(ctx context.Context, r *fleetv1.ShowBudgetRequest) (*fleetv1.ShowBudgetResponse, error) {
	req := service.ShowBudgetRequest{Name: r.GetName(), All: r.GetAll(), Limit: intIn(r.Limit)}
	if c := r.GetCursor(); c != "" {
		n, err := strconv.ParseInt(c, 10, 64)
		if err != nil || n < 0 {
			return nil, fleet.InvalidField("cursor", "cursor %q is not valid: give the next_cursor of an answer", fleet.Shorten(c, 40))
		}
		req.Before = n
	}
	l, err := f.svc.ShowBudget(ctx, req)
	if err != nil {
		return nil, err
	}
	out := &fleetv1.ShowBudgetResponse{Budget: budgetOf(l.BudgetBalance), Entries: []*fleetv1.BudgetEntry{}}
	if l.Next > 0 {
		out.NextCursor = new(strconv.FormatInt(l.Next, 10))
	}
	for _, e := range l.Entries {
		entry := &fleetv1.BudgetEntry{
			At: timeOf(e.At), Kind: string(e.Kind), TaskId: e.TaskID, Text: textOf(e.Text),
			ReservedUsd: e.Reserved.Micros.USD(), ReservedTokens: float64(e.Reserved.Tokens), SpentUsd: e.Spent.Micros.USD(), SpentTokens: float64(e.Spent.Tokens),
		}
		if l.Window != fleet.WindowNone {
			entry.WindowBegins = timeOf(e.Begin)
		}
		out.Entries = append(out.Entries, entry)
	}
	return out, nil
}

// RaiseTaskBudget sets the maximum cost of a task that has not ended.
func (f *Fleet) RaiseTaskBudget(ctx context.Context, r *fleetv1.RaiseTaskBudgetRequest) (*fleetv1.RaiseTaskBudgetResponse, error) {
	t, err := f.svc.RaiseTaskBudget(ctx, r.GetTaskId(), r.GetMaxCostUsd(), r.GetRequestId())
	if err != nil {
		return nil, err
	}
	return &fleetv1.RaiseTaskBudgetResponse{Task: taskOf(t), Message: "The task may cost " + fleet.MicrosOf(r.GetMaxCostUsd()).String()}, nil
}

func budgetOf(r service.BudgetBalance) *fleetv1.Budget {
	b := &fleetv1.Budget{
		Name: r.Name, Scope: string(r.Scope), Value: textOf(r.Value), Window: string(r.Window), TimeZone: r.TimeZone, OnBreach: string(r.OnBreach), Unpriced: string(r.Unpriced),
		SpentUsd: r.Total.Spent.Micros.USD(), ReservedUsd: r.Total.Reserved.Micros.USD(), SpentTokens: float64(r.Total.Spent.Tokens), ReservedTokens: float64(r.Total.Reserved.Tokens),
		SetBy: r.UpdatedBy, UpdatedAt: timeOf(r.UpdatedAt),
	}
	if b.TimeZone == "" {
		b.TimeZone = "UTC"
	}
	if r.Limit > 0 {
		b.LimitUsd, b.LeftUsd = new(r.Limit.USD()), new(r.Left.Micros.USD())
	}
	if r.TokenLimit > 0 {
		b.LimitTokens, b.LeftTokens = new(float64(r.TokenLimit)), new(float64(r.Left.Tokens))
	}
	if r.Window != fleet.WindowNone {
		b.WindowBegins, b.WindowEnds = timeOf(r.Key.Begin), timeOf(r.End)
	}
	return b
}
